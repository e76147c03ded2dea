// The explorer of buckets: `data.bars` and `data.words` are what Python computed for each
// place of the sliders, in the order of the knobs; times are in milliseconds.

// The sentence below the picture, as BucketExplorer.words in buckets.py has it.
function bucketWords(data, at) {
  return data.words[placeOf(data.knobs, at)];
}

function bucketPicture(data, at, width) {
  const bars = data.bars[placeOf(data.knobs, at)], words = bucketWords(data, at);
  const lane = 34, left = 74, right = width - 14, bottom = 18 + 2 * lane, height = bottom + 36;
  const until = 1.08 * Math.max(data.computing, ...bars);
  const x = (time) => left + (time / until) * (right - left);
  const picture = blank(width, height, words);
  const write = (text, attributes) =>
    writeOn(picture, text, { "text-anchor": "middle", ...attributes });
  const bar = (begin, end, number) => picture.append(svg("rect", {
    x: x(begin) + 0.4, y: 18 + lane * number + 4, width: Math.max(x(end) - x(begin) - 0.8, 0.5),
    height: lane - 8, fill: data.colors[number],
  }));
  data.lanes.forEach((name, number) =>
    write(name, { x: left - 8, y: 18 + lane * (number + 0.5) + 4, "text-anchor": "end" }));
  bar(0, data.computing, 0);
  for (let n = 0; n < bars.length; n += 2) bar(bars[n], bars[n + 1], 1);
  picture.append(svg("line", {
    x1: x(data.computing), x2: x(data.computing), y1: 14, y2: bottom, stroke: "currentColor",
    "stroke-dasharray": "3 3",
  }));
  for (const time of ticksBelow(until)) write(formatNumber(time), { x: x(time), y: bottom + 14 });
  write("time (ms)", { x: (left + right) / 2, y: bottom + 31 });
  return picture;
}

// Four to eight round numbers from 0 to the end of an axis.
function ticksBelow(until) {
  const power = 10 ** Math.floor(Math.log10(until / 4));
  const step = [5, 2, 1].map((n) => n * power).find((size) => until / size >= 4) ?? power;
  return Array.from({ length: Math.floor(until / step) + 1 }, (_, n) => n * step);
}

function exploreBuckets(root, data) {
  explore(root, data, bucketPicture, bucketWords);
}
