// The explorer of rounding: the sums of one entry in all orders, on a line whose marks are
// multiples of the unit. Python has computed the sums and the sentences.

function sumsPicture({ kinds, grid, words }, width) {
  const reach = Math.ceil(Math.max(...kinds.flat().map(Math.abs)) + 0.6);
  const left = 12, right = width - 12, radius = 5.5, height = {};
  const dots = kinds.flatMap((places, kind) => places.map((place) => {
    height[place] = (height[place] ?? -1) + 1;
    return { place, row: height[place], kind };
  }));
  const rows = Math.max(...Object.values(height)) + 1, bottom = 16 + rows * 2.3 * radius;
  const x = (value) => left + ((value + reach) / (2 * reach)) * (right - left);
  const picture = blank(width, bottom + 40, words);
  const line = (at, look) => picture.append(svg("line", {
    x1: x(at), x2: x(at), y1: 6, y2: bottom, stroke: "currentColor", ...look,
  }));
  const write = (at, y, text) =>
    writeOn(picture, text, { x: at, y, "text-anchor": "middle" });
  for (let n = -reach; n <= reach + 1; n++) {
    if (Math.abs(n + grid - 1) <= reach) line(n + grid - 1, { "stroke-opacity": 0.3 });
  }
  line(0, { "stroke-dasharray": "4 3" });
  const step = Math.max(1, Math.ceil(reach / 5));
  for (let n = -reach + (reach % step); n <= reach; n += step) write(x(n), bottom + 15, n);
  write((left + right) / 2, bottom + 33, "distance from the exact sum, in units");
  for (const { place, row, kind } of dots) {
    picture.append(svg("circle", {
      cx: x(place), cy: bottom - (row + 0.6) * 2.3 * radius, r: radius,
      fill: kind ? "none" : "currentColor", stroke: "currentColor", "stroke-width": 1.4,
    }));
  }
  return picture;
}

function exploreSums(root, data) {
  const now = (at) => data.shown[at.type][at.entry];
  const picture = (_, at, width) => sumsPicture(now(at), width);
  const key = ["● ", "○ "].map((sign, n) => [sign + data.kinds[n]]);
  key.push(["┆ exact sum"], ["│ multiples of the unit"]);
  explore(root, data, picture, (_, at) => now(at).words, key);
}
