// The explorer of ring attention: blocks of queries and keys in the colours of the ranks
// that compute them, those of earlier steps pale. Python has computed the rest.

// Whether a block is computed in this step, before it or later.
function whenComputed(block, step) {
  return block > step ? "later" : block < step ? "before" : "now";
}

function attentionPicture({ owners, steps, words }, step, { colors, before }, width) {
  const side = Math.min(width - 40, 300), cell = side / owners.length, left = 34, top = 4;
  const sentence = words[step];
  const picture = blank(left + side + 6, top + side + 40, sentence);
  const write = (x, y, text, more = {}) =>
    writeOn(picture, text, { x, y, "text-anchor": "middle", ...more });
  const opacity = { later: 0, before, now: 1 };
  steps.forEach((row, query) => row.forEach((block, key) => {
    picture.append(svg("rect", {
      x: left + key * cell, y: top + query * cell, width: cell, height: cell,
      fill: colors[owners[query]], "fill-opacity": opacity[whenComputed(block, step)],
      stroke: "currentColor", "stroke-opacity": 0.5, "stroke-width": 0.7,
    }));
  }));
  owners.forEach((owner, piece) => {
    const middle = (piece + 0.5) * cell;
    write(left + middle, top + side + 15, owner);
    write(left - 9, top + middle + 4, owner);
  });
  write(left + side / 2, top + side + 34, "keys, in the order of the text");
  const x = 12, y = top + side / 2;
  write(x, y, "queries, by their rank", { transform: `rotate(-90 ${x} ${y})` });
  return picture;
}

function exploreAttention(root, data) {
  const now = (at) => data.shown[at.ranks][at.order];
  const picture = (_, at, width) => attentionPicture(now(at), at.step, data, width);
  const key = [["strong: this step"], ["pale: an earlier step"], ["empty: a later step"]];
  explore(root, data, picture, (_, at) => now(at).words[at.step], key);
}
