// The explorer of capacities: a bar for each expert. Python has computed the loads and the
// sentences.

function capacityPicture({ wanted, kept, room, words }, { most, colors }, width) {
  const left = 62, right = width - 12, row = 24, bottom = 8 + row * wanted.length;
  const x = (value) => left + (value / most) * (right - left);
  const picture = blank(width, bottom + 42, words);
  const write = (at, y, text, anchor) =>
    writeOn(picture, text, { x: at, y, "text-anchor": anchor });
  const bar = (expert, from, to, look) => to > from && picture.append(svg("rect", {
    x: x(from), y: 11 + row * expert, width: x(to) - x(from), height: row - 7, ...look,
  }));
  const [green, red, ink] = colors;
  wanted.forEach((load, expert) => {
    write(left - 8, 24 + row * expert, `expert ${expert}`, "end");
    bar(expert, 0, kept[expert], { fill: green });
    bar(expert, kept[expert], load, { fill: red });
    if (room !== null) bar(expert, kept[expert], room, { fill: "none", stroke: ink, "stroke-dasharray": "3 2" });
  });
  for (let n = 0; n <= most; n++) write(x(n), bottom + 16, n, "middle");
  write((left + right) / 2, bottom + 34, "tokens, in fair shares", "middle");
  return picture;
}

function exploreCapacity(root, data) {
  const now = (at) => data.shown[at.factor][at.share];
  const picture = (_, at, width) => capacityPicture(now(at), data, width);
  const [green, red] = data.colors;
  const key = [
    [square(`background:${green}`), " computed"], [square(`background:${red}`), " dropped"],
    [square("border:1px dashed currentColor"), " empty place"],
  ];
  explore(root, data, picture, (_, at) => now(at).words, key);
}
