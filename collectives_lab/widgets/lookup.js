// Looks up what Python computed where the sliders stand. `table` is nested in the order
// of `axes`, each `{key, shares}`: a list has an entry for each stop of its axis, or only
// two for its ends, of which the values between are shares. Null is a time that nobody has.
function lookUp(table, axes, at) {
  if (table === null) return NaN;
  if (axes.length === 0) return table;
  const [{ key, shares }, ...rest] = axes, share = shares[at[key]];
  if (table.length === shares.length) return lookUp(table[at[key]], rest, at);
  const [first, last] = table.map((end) => lookUp(end, rest, at));
  return (1 - share) * first + share * last;
}
