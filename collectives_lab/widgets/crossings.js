// Where curves that were looked up meet. For the picture without a script plots computes
// it (series.fastest, cost_curves.crossings); for a table of it the sliders have too many
// settings, thousands of them with a list each.
// alike: of two times that differ by less, as a share of them, neither is the faster.

// The number of the fastest at each size, the first of equals; -1 where none has a time.
function fastest(curves, alike) {
  return curves[0].map((_, i) => {
    const best = Math.min(...curves.map((c) => (Number.isNaN(c[i]) ? Infinity : c[i])));
    return curves.findIndex((c) => c[i] <= best * (1 + alike) && best < Infinity);
  });
}

// Where the fastest changes, `[size, seconds, number]`: between two sizes the curves
// are taken as straight, as alpha + beta S is.
function crossings(sizes, curves, alike) {
  const best = fastest(curves, alike), crossed = [];
  for (let i = 0; i + 1 < sizes.length; i++) {
    const [old, next] = [curves[best[i]], curves[best[i + 1]]];
    if (!old || !next || old === next) continue;
    const behind = next[i] - old[i], ahead = next[i + 1] - old[i + 1];
    // Where one of them has no time at one of the sizes, the other begins to win.
    const meet = Number.isFinite(behind - ahead);
    const part = meet ? Math.min(1, Math.max(0, behind / (behind - ahead))) : 1;
    const between = (list) => list[i] + part * (list[i + 1] - list[i]);
    crossed.push([between(sizes), meet ? between(old) : next[i + 1], best[i + 1]]);
  }
  return crossed;
}
