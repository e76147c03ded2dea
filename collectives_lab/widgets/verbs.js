// The explorer of verbs: the slots of all ranks before and after, and the bounds.

// What every rank holds before and after a verb; `holds` in verbs.py says the same.
function verbHolds(verb, p, root) {
  const ranks = [...Array(p).keys()];
  const grid = (at) => ranks.map((rank) => ranks.map((slot) => at(rank, slot)));
  const full = grid((rank, slot) => [slot, [rank]]);
  const own = grid((rank, slot) => (slot === rank ? [slot, [rank]] : null));
  const atRoot = grid((rank, slot) => (rank === root ? [slot, [root]] : null));
  const after = {
    broadcast: [atRoot, (rank, slot) => [slot, [root]]],
    scatter: [atRoot, (rank, slot) => (slot === rank ? [slot, [root]] : null)],
    gather: [own, (rank, slot) => (rank === root ? [slot, [slot]] : null)],
    reduce: [full, (rank, slot) => (rank === root ? [slot, ranks] : null)],
    all_gather: [own, (rank, slot) => [slot, [slot]]],
    all_reduce: [full, (rank, slot) => [slot, ranks]],
    reduce_scatter: [full, (rank, slot) => (slot === rank ? [slot, ranks] : null)],
    all_to_all: [full, (rank, slot) => [rank, [slot]]],
  }[verb];
  return [after[0], grid(after[1])];
}

// The sentence below the picture; VerbExplorer.words in verbs.py says the same.
function verbWords(data, { verb, p, root }) {
  const place = data.rooted.includes(verb) ? ` with root ${root}` : "";
  return `${verb} on ${p} ranks${place} ${data.does[verb]}. All ranks together send at least ` +
    `${formatNumber(data.total[verb][p])} S, and one of them sends or receives at least ` +
    `${formatNumber(data.busiest[verb][p])} S.`;
}

// Both sides beside each other, or below each other where that is too wide.
function verbPicture(data, now, width) {
  const { verb, p, root } = now, names = 52, gap = 26, head = 22;
  const sides = verbHolds(verb, p, root), isNarrow = width < 2 * 34 * p + names + gap;
  const columns = isNarrow ? p : 2 * p, left = names + (isNarrow ? 0 : gap);
  const cell = Math.min(56, (width - left - 2) / columns);
  const step = head + cell * p + 10, height = isNarrow ? 2 * step : step;
  const picture = blank(width, height, verbWords(data, now));
  const write = (x, y, words, attributes = {}) =>
    writeOn(picture, words, { x, y, "text-anchor": "middle", ...attributes });
  sides.forEach((rows, side) => {
    const x0 = names + (isNarrow ? 0 : side * (cell * p + gap)), y0 = head + (isNarrow ? side * step : 0);
    write(x0 + cell * p / 2, y0 - 8, side ? "after" : "before");
    rows.forEach((row, rank) => {
      const middle = y0 + cell * (rank + 0.5);
      if (!side || isNarrow) write(names - 8, middle + 4, `rank ${rank}`, { "text-anchor": "end" });
      row.forEach((slot, place) => verbCell(data, picture, write, {
        x: x0 + place * cell, y: y0 + rank * cell, cell, p, slot,
        isLost: side && verb === "reduce" && !slot,
      }));
    });
  });
  return picture;
}

// A place: the letter of the slot, and a dot for each rank that is in it.
function verbCell(data, picture, write, { x, y, cell, p, slot, isLost }) {
  picture.append(svg("rect", {
    x, y, width: cell, height: cell, fill: "none", stroke: "currentColor", "stroke-opacity": 0.35,
  }));
  if (isLost) write(x + cell / 2, y + cell / 2 + 4, "?", { opacity: 0.6 });
  if (!slot) return;
  const [number, ranks] = slot, across = ranks.length > 4 ? 4 : 2;
  const rows = Math.ceil(ranks.length / across), letter = 12;
  const room = Math.min((cell - 4) / Math.min(across, ranks.length), (cell - letter - 3) / rows);
  const size = Math.min(cell * 0.24, room / 2.1);
  write(x + 7, y + 11, "abcdefgh"[number], { opacity: 0.75 });
  ranks.forEach((rank, n) => {
    const row = Math.floor(n / across);
    const inRow = Math.min(across, ranks.length);
    const cx = x + cell / 2 + (n % across - (inRow - 1) / 2) * 2.1 * size;
    const cy = y + (cell + letter - 2) / 2 + (row - (rows - 1) / 2) * 2.1 * size;
    picture.append(svg("circle", { cx, cy, r: size, fill: data.colors[rank] }));
    if (size > 4) {
      const look = { fill: data.inks[rank], style: `font-size:${Math.min(11, 1.6 * size)}px` };
      write(cx, cy + Math.min(4, 0.58 * size), rank, look);
    }
  });
}

function exploreVerbs(root, data) {
  const [choices, knobs, stage, sentence] = [".choices", ".knobs", ".stage", ".sentence"]
    .map((part) => root.querySelector(part));
  let chosen = data.verbs[data.start];
  const value = (key) => data.knobs.find((knob) => knob.key === key).values[at[key]];
  const draw = () => {
    const p = value("ranks"), range = knobs.lastChild.querySelector("input");
    range.max = p - 1; // a root is a rank: one beyond the last moves to it, and draws anew
    if (value("root") >= p) return range.dispatchEvent(new Event("input"));
    const now = { verb: chosen, p, root: value("root") };
    knobs.lastChild.style.opacity = data.rooted.includes(chosen) ? 1 : 0.4; // it has none
    stage.replaceChildren(verbPicture(data, now, stage.clientWidth));
    sentence.textContent = verbWords(data, now);
  };
  choices.setAttribute("role", "group");
  choices.setAttribute("aria-label", "verb");
  const buttons = data.verbs.map((verb) => {
    const button = element("button", { type: "button", "aria-pressed": verb === chosen }, verb);
    button.addEventListener("click", () => {
      chosen = verb;
      for (const other of buttons) other.setAttribute("aria-pressed", other === button);
      draw();
    });
    return button;
  });
  choices.replaceChildren(...buttons);
  const at = sliders(knobs, data.knobs, draw);
  whenever(stage, draw);
}
