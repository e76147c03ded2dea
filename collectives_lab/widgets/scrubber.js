// A slider over the moments of a space-time diagram: a line at the time, the messages
// under way at it with a dot where each is, and the moment in words. Those are in the
// list below the picture, which a reader without scripts can open. Line and dots stay
// among the lanes, off the labels round them.

function scrub(root, data) {
  const [stage, knobs, sentence] = [".stage", ".knobs", ".sentence"]
    .map((part) => root.querySelector(part));
  const sentences = [...root.querySelectorAll(".moments li")].map((item) => item.textContent);
  const frame = element("div", { class: "frame" });
  const picture = stage.querySelector("img");
  picture.replaceWith(frame);
  const lines = svg("svg", { viewBox: "0 0 100 100", preserveAspectRatio: "none", "aria-hidden": "true" });
  const cursor = element("div", { class: "cursor" }), dots = element("div");
  frame.append(picture, lines, cursor, dots);
  const { left: first, top, bottom } = data.box;
  Object.assign(cursor.style, { top: `${top}%`, bottom: `${100 - bottom}%` });

  function show() {
    const { time, x } = data.moments[at.moment];
    const now = data.arrows.filter(({ begin, end }) => begin <= time && time < end);
    lines.replaceChildren(...now.map(({ from, to, color }) => svg("line", {
      x1: from[0], y1: from[1], x2: to[0], y2: to[1], stroke: color,
      "stroke-width": 5, "stroke-opacity": 0.6, "vector-effect": "non-scaling-stroke",
    })));
    dots.replaceChildren(...now.map(({ from, to, begin, end, color }) => {
      const part = (time - begin) / (end - begin);
      const [left, top] = [0, 1].map((i) => from[i] + part * (to[i] - from[i]));
      const inside = `max(${left}%, ${first}% + 7px)`;
      return element("i", { style: `left:${inside};top:${top}%;background:${color}` });
    }));
    cursor.style.left = `${x}%`;
    sentence.textContent = sentences[at.moment];
  }

  const texts = sentences.map((text) => text.split(":")[0]);
  const knob = { key: "moment", name: data.name, texts, start: 0 };
  const at = sliders(knobs, [knob], show);
  show();
}
