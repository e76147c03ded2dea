// A picture with two logarithmic axes, as SVG in the colour of the page's own text.

function svg(name, attributes = {}, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

// A picture with nothing in it yet; `words` are what a screen reader says of it.
function blank(width, height, words) {
  const size = { viewBox: `0 0 ${width} ${height}`, width, height };
  return svg("svg", { ...size, role: "img", "aria-label": words });
}

function writeOn(picture, words, attributes) {
  const made = svg("text", { fill: "currentColor", ...attributes });
  made.textContent = words;
  picture.append(made);
}

// x and y: `{low, high, ticks, text, name}`; text writes a tick.
class Chart {
  constructor(width, height, x, y, words) {
    this.box = { left: 62, right: width - 28, top: 12, bottom: height - 42 };
    this.scales = { x, y };
    this.picture = blank(width, height, words);
    this.#axes(x, y);
  }

  x(value) {
    const { low, high } = this.scales.x, { left, right } = this.box;
    return left + (Math.log(value / low) / Math.log(high / low)) * (right - left);
  }

  y(value) {
    const { low, high } = this.scales.y, { top, bottom } = this.box;
    return bottom - (Math.log(value / low) / Math.log(high / low)) * (bottom - top);
  }

  // A value that is beyond the picture is drawn at its edge.
  inside(value) {
    return Math.min(Math.max(value, this.scales.y.low), this.scales.y.high);
  }

  add(name, attributes, text = "") {
    const made = this.picture.appendChild(svg(name, attributes));
    made.textContent = text;
    return made;
  }

  text(x, y, words, attributes = {}) {
    this.add("text", { x, y, fill: "currentColor", ...attributes }, words);
  }

  // points: `[x, y]` pairs; where a y is not a number, the line has a gap.
  line(points, attributes) {
    let path = "", pen = "M";
    for (const [x, y] of points) {
      if (!(y > 0)) pen = "M";
      else {
        path += `${pen}${this.x(x).toFixed(1)} ${this.y(y).toFixed(1)}`;
        pen = "L";
      }
    }
    this.add("path", { d: path, fill: "none", "clip-path": this.clip, ...attributes });
  }

  ring(x, y, attributes = {}) {
    const look = { r: 5, fill: "none", stroke: "currentColor", "stroke-width": 1.6 };
    this.add("circle", { cx: this.x(x), cy: this.y(y), ...look, ...attributes });
  }

  #axes(x, y) {
    const { left, right, top, bottom } = this.box;
    const faint = { stroke: "currentColor", "stroke-opacity": 0.2 };
    // Two charts of a page must not cut each other's lines.
    const name = `clip-${Math.random().toString(36).slice(2)}`;
    const room = { x: left, y: top, width: right - left, height: bottom - top };
    this.picture.append(svg("clipPath", { id: name }, svg("rect", room)));
    this.clip = `url(#${name})`;
    for (const tick of x.ticks) {
      const at = this.x(tick);
      this.add("line", { x1: at, x2: at, y1: top, y2: bottom, ...faint });
      this.text(at, bottom + 16, x.text(tick), { "text-anchor": "middle" });
    }
    for (const tick of y.ticks) {
      const at = this.y(tick);
      this.add("line", { x1: left, x2: right, y1: at, y2: at, ...faint });
      this.text(left - 6, at + 4, y.text(tick), { "text-anchor": "end" });
    }
    const middle = { "text-anchor": "middle" };
    this.text((left + right) / 2, bottom + 34, x.name, middle);
    const turned = `rotate(-90 12 ${(top + bottom) / 2})`;
    this.text(12, (top + bottom) / 2, y.name, { ...middle, transform: turned });
  }
}

// Powers of `base` from low to high, every n-th so that there are at most `most`.
function powers(base, low, high, most) {
  const first = Math.ceil(Math.log(low) / Math.log(base) - 1e-9);
  const last = Math.floor(Math.log(high) / Math.log(base) + 1e-9);
  const step = [1, 2, 5, 10, 20, 40].find((n) => (last - first) / n < most) ?? 80;
  const ticks = [];
  for (let n = Math.ceil(first / step) * step; n <= last; n += step) ticks.push(base ** n);
  return ticks;
}

const dash = ({ color, dashes }) => ({ stroke: color, "stroke-dasharray": dashes });

// A short piece of a line, for a key.
function sample(look) {
  const line = svg("line", { x1: 0, x2: 34, y1: 5, y2: 5, "stroke-width": 2.5, ...dash(look) });
  return svg("svg", { width: 34, height: 10, "aria-hidden": "true" }, line);
}
