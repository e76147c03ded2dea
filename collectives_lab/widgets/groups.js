// The explorer of groups. Python has computed which shape a group has by its sliders, and
// the seconds of an all-reduce by machine, shape and size (see groups.py).

function groupNow(data, at) {
  const value = (key) => data.knobs.find((knob) => knob.key === key).values[at[key]];
  const shape = data.shapes[at.ranks][at.distance], nearest = data.shapes[at.ranks][0];
  const seconds = (one) => data.seconds[at.machine][one][at.size];
  return {
    ranks: value("ranks"), distance: value("distance"), nodes: data.nodes[shape],
    inNode: data.inNode[shape], own: seconds(shape), nearest: seconds(nearest),
  };
}

// The sentence below the picture; GroupExplorer.words in groups.py says the same.
function groupWords(data, at) {
  const text = (key) => data.knobs.find((knob) => knob.key === key).texts[at[key]];
  const { distance, nodes, inNode, own, nearest } = groupNow(data, at);
  const where = nodes > 1 ? `${nodes} nodes, ${inNode} in each` : "one node";
  const sentence = `${text("ranks")} ranks, each ${text("distance")} from the next, are on ` +
    `${where}. By the model, NCCL's all-reduce of ${text("size")} takes them ` +
    `about ${formatSeconds(own)} on ${text("machine")}`;
  if (distance === 1) return `${sentence}.`;
  return `${sentence}, ${formatNumber(own / nearest)} times as long as next to each other.`;
}

function groupPicture(data, at, width) {
  const { ranks, distance } = groupNow(data, at), { perNode, most } = data;
  const rows = Math.ceil((ranks * distance) / perNode), shown = Math.min(rows, most);
  const left = 60, cell = Math.min(36, (width - left - 8) / perNode);
  const height = cell * shown + (shown < rows ? 26 : 6);
  const picture = blank(width, height, groupWords(data, at));
  const write = (words, attributes) => writeOn(picture, words, attributes);
  for (let rank = 0; rank < shown * perNode; rank++) {
    const x = left + (rank % perNode) * cell, y = Math.floor(rank / perNode) * cell + 2;
    const isMember = rank % distance === 0 && rank < ranks * distance;
    picture.append(svg("rect", {
      x: x + 1.5, y, width: cell - 3, height: cell - 3, stroke: "currentColor", "stroke-opacity": 0.5,
      fill: isMember ? data.color : "none",
    }));
    const look = isMember ? { fill: "#fff", "font-weight": "bold" } : {};
    write(String(rank), { x: x + cell / 2, y: y + cell / 2 + 3, "text-anchor": "middle", ...look });
    if (rank % perNode === 0) write(`node ${rank / perNode}`, { x: left - 8, y: y + cell / 2 + 3, "text-anchor": "end" });
  }
  if (shown < rows) write(`and ${rows - shown} nodes more`, { x: left, y: height - 8 });
  return picture;
}

function exploreGroups(root, data) {
  explore(root, data, groupPicture, groupWords);
}
