// The explorer of capacities: a bar for each expert. Python has computed the loads and the
// sentences.

function capacityPicture({ wanted, kept, room, words }, { most, colors }, width) {
  const left = 62, right = width - 12, row = 24, bottom = 8 + row * wanted.length;
  const x = (value) => left + (value / most) * (right - left);
  const picture = svg("svg", {
    viewBox: `0 0 ${width} ${bottom + 42}`, width, height: bottom + 42, role: "img", "aria-label": words,
  });
  const write = (at, y, text, anchor) => {
    const made = svg("text", { x: at, y, fill: "currentColor", "text-anchor": anchor });
    made.textContent = text;
    picture.append(made);
  };
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
  const [knobs, key, stage, sentence] = [".knobs", ".key", ".stage", ".sentence"]
    .map((part) => root.querySelector(part));
  const draw = () => {
    const now = data.shown[at.factor][at.share];
    stage.replaceChildren(capacityPicture(now, data, stage.clientWidth));
    sentence.textContent = now.words;
  };
  const [green, red] = data.colors;
  const signs = [["computed", `background:${green}`], ["dropped", `background:${red}`],
    ["empty place", "border:1px dashed currentColor"]];
  key.replaceChildren(...signs.map(([name, look]) => {
    const square = element("i", { style: `display:inline-block;width:1em;height:0.8em;${look}` });
    return element("span", {}, square, ` ${name}`);
  }));
  const at = sliders(knobs, data.knobs, draw);
  whenever(stage, draw);
}
