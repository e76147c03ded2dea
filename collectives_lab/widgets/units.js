// Numbers with their units, written as collectives_lab/basics/units.py writes them.

function threeDigits(value) {
  const size = Math.abs(value);
  const isShort = (size >= 0.01 && size < 999.5) || !value;
  return isShort ? String(Number(value.toPrecision(3))) : value.toFixed(0);
}

function inUnits(value, scales, last) {
  const fits = scales.find(([scale]) => Math.abs(value) >= scale) ?? last;
  return `${threeDigits(value / fits[0])} ${fits[1]}`;
}

const formatSeconds = (seconds) =>
  inUnits(seconds, [[1, "s"], [1e-3, "ms"], [1e-6, "µs"]], [1e-9, "ns"]);

function formatBytes(nbytes, digits = 4) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  while (Math.abs(nbytes) >= 1024 && units.length > 1) {
    nbytes /= 1024;
    units.shift();
  }
  return `${Number(nbytes.toPrecision(digits))} ${units[0]}`;
}

// Three digits, or all before the point with commas; never an exponent, as in words.py.
function formatNumber(value) {
  if (value > 0 && value < 0.0001) return "less than 0.0001";
  if (value < 999.5) return String(Number(value.toPrecision(3)));
  return Math.round(value).toLocaleString("en-US");
}
