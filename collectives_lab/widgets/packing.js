// The explorer of sums in fewer bytes: a bar for each way, of three parts. Python has
// computed the parts and the sentences.

function packingPicture({ steps, words }, { names, colors }, width) {
  const wholes = steps.map((parts) => parts.reduce((sum, part) => sum + part, 0));
  const most = Math.max(...wholes), row = 40, left = 2, right = width - 84;
  const x = (seconds) => left + (seconds / most) * (right - left);
  const picture = blank(width, row * names.length, words);
  const write = (at, y, text) => writeOn(picture, text, { x: at, y });
  names.forEach((name, way) => {
    write(left, 14 + row * way, name);
    let from = 0;
    steps[way].forEach((part, n) => {
      const place = { x: x(from), y: 19 + row * way, width: x(part) - left, height: 15 };
      picture.append(svg("rect", { ...place, fill: colors[n] }));
      from += part;
    });
    write(x(from) + 6, 31 + row * way, formatSeconds(wholes[way]));
  });
  return picture;
}

function explorePacking(root, data) {
  const now = (at) => data.shown[at.bandwidth][at.packing];
  const picture = (_, at, width) => packingPicture(now(at), data, width);
  const key = data.parts.map((name, n) => [square(`background:${data.colors[n]}`), ` ${name}`]);
  explore(root, data, picture, (_, at) => now(at).words, key);
}
