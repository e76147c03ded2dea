// Sliders over lists of values. The browser's own range input brings the arrow keys,
// Home and End; the value in words is beside it and is what a screen reader says.

function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

// One slider: `texts` are its values in words, `start` is the number of the first one.
function slider(name, texts, start, moved) {
  const value = element("output");
  const range = element("input", {
    type: "range", min: 0, max: texts.length - 1, step: 1, "aria-label": name,
    "data-lm-suppress-shortcuts": "true", // or JupyterLab takes the arrow keys
  });
  const write = () => {
    value.textContent = texts[range.value];
    range.setAttribute("aria-valuetext", texts[range.value]);
  };
  range.value = start;
  range.addEventListener("input", () => {
    write();
    moved(Number(range.value));
  });
  write();
  return element("label", {}, element("span", {}, name), value, range);
}

// A slider for each knob `{key, name, texts, values, start}` in `place`. Returns where
// they stand, as `{key: number of the value}`; it changes with them, and then `moved` is
// called.
function sliders(place, knobs, moved) {
  const at = {};
  place.replaceChildren(...knobs.map(({ key, name, texts, start }) => {
    at[key] = start;
    return slider(name, texts, start, (number) => {
      at[key] = number;
      moved();
    });
  }));
  return at;
}

// Where sliders stand, as a number: that of their place in the product of their values.
function placeOf(knobs, at) {
  return knobs.reduce((place, { key, values }) => place * values.length + at[key], 0);
}

// Shows a picture and a sentence below the sliders, and draws both anew for each move of
// one. `picture` and `words` get the data and where the sliders stand; `key` is a list of
// signs, each a list of what stands in it.
function explore(root, data, picture, words, key = []) {
  const [knobs, stage, sentence] = [".knobs", ".stage", ".sentence"]
    .map((part) => root.querySelector(part));
  const draw = () => {
    stage.replaceChildren(picture(data, at, stage.clientWidth));
    sentence.textContent = words(data, at);
  };
  root.querySelector(".key")?.replaceChildren(...key.map((sign) => element("span", {}, ...sign)));
  const at = sliders(knobs, data.knobs, draw);
  whenever(stage, draw);
}

// A small square, for a key.
function square(look) {
  return element("i", { style: `display:inline-block;width:1em;height:0.8em;${look}` });
}

// Draws now and whenever `place` gets another width: a picture is as wide as its
// place, so that words in it are as large as words beside it, on a phone too.
function whenever(place, draw) {
  let width = 0;
  new ResizeObserver(() => {
    if (place.clientWidth && place.clientWidth !== width) {
      width = place.clientWidth;
      draw();
    }
  }).observe(place);
}
