// The explorer of sums in fewer bytes: a bar for each way, of three parts. Python has
// computed the parts and the sentences.

function packingPicture({ steps, words }, { names, colors }, width) {
  const wholes = steps.map((parts) => parts.reduce((sum, part) => sum + part, 0));
  const most = Math.max(...wholes), row = 40, left = 2, right = width - 84;
  const x = (seconds) => left + (seconds / most) * (right - left);
  const picture = svg("svg", {
    viewBox: `0 0 ${width} ${row * names.length}`, width, height: row * names.length,
    role: "img", "aria-label": words,
  });
  const write = (at, y, text) => {
    const made = svg("text", { x: at, y, fill: "currentColor" });
    made.textContent = text;
    picture.append(made);
  };
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
  const [knobs, key, stage, sentence] = [".knobs", ".key", ".stage", ".sentence"]
    .map((part) => root.querySelector(part));
  const draw = () => {
    const now = data.shown[at.bandwidth][at.packing];
    stage.replaceChildren(packingPicture(now, data, stage.clientWidth));
    sentence.textContent = now.words;
  };
  key.replaceChildren(...data.parts.map((name, n) => {
    const look = `display:inline-block;width:1em;height:0.8em;background:${data.colors[n]}`;
    return element("span", {}, element("i", { style: look }), ` ${name}`);
  }));
  const at = sliders(knobs, data.knobs, draw);
  whenever(stage, draw);
}
