// Opened as a file, a page may not read its neighbours: results come without excerpts.
if (location.protocol === "file:") {
  DOCUMENTATION_OPTIONS.SHOW_SEARCH_SUMMARY = false;
}

// What a reader types as a guess goes into the table of the answer, which then opens.
document.addEventListener("submit", (event) => {
  const form = event.target.closest("form.guess");
  if (!form) return;
  event.preventDefault();
  const answer = form.nextElementSibling;
  if (!answer?.matches("details.answer")) return;
  answer.open = true;
  const guess = form.querySelector("input").value.trim();
  for (const head of answer.querySelectorAll("th")) {
    if (head.textContent !== "my guess") continue;
    const heads = [...head.parentElement.cells].map((cell) => cell.textContent);
    const first = ANSWERS.find((name) => heads.includes(name)) ?? heads[1];
    const row = head.closest("table").querySelector("tbody tr");
    const truth = row.cells[heads.indexOf(first)]?.textContent ?? "";
    const words = guess && howFar(guess, truth);
    row.cells[head.cellIndex].textContent = (guess || "–") + (words && `: ${words}`);
  }
});

// What a guess is held against, and how far it is off, in the words of a notebook:
// collectives_lab/basics/tables.py and guesses.py, from the texts of the table.
const ANSWERS = ["measured", "recorded", "counted", "replayed", "simulated", "predicted"];

function howFar(guess, answer) {
  const answers = answer.replace(/[[\]]/g, "").split(", ");
  let guesses = guess.replace(/[[\]]|^\(|\)$/g, "").split(/,\s+/);
  if (guesses.length < answers.length) guesses = guesses.join(",").split(",");
  if (guesses.length !== answers.length)
    return `${guesses.length} for ${answers.length} answers`;
  const verdicts = answers.map((one, at) => ofOne(guesses[at], one));
  const right = verdicts.filter((verdict) => verdict === "right").length;
  if (right === answers.length) return "right";
  if (answers.length > 4) return `${right} of ${answers.length} right`;
  return verdicts.some(Boolean) ? verdicts.map((v) => v || "–").join(", ") : "";
}

function ofOne(guess, answer) {
  const number = (text) => (text.trim() ? Number(text.replaceAll(",", "")) : NaN);
  const [mine, theirs] = [number(guess), number(answer)];
  if (Number.isNaN(theirs)) return answer === "–" ? "" : ofWords(guess, answer);
  if (Number.isNaN(mine)) return "need a number";
  if (mine === theirs || Math.abs(mine - theirs) <= 0.05 * Math.abs(theirs))
    return "right";
  const side = mine > theirs ? "too high" : "too low";
  const short = (value) =>
    value < 1000
      ? String(Number(value.toPrecision(3)))
      : Math.round(value).toLocaleString("en");
  if (mine * theirs <= 0) return `${short(Math.abs(mine - theirs))} ${side}`;
  const factor = Math.max(mine / theirs, theirs / mine);
  if (factor >= 2) return `${short(factor)} times ${side}`;
  return `${Math.round(100 * Math.abs(mine / theirs - 1))}% ${side}`;
}

function ofWords(guess, answer) {
  const plain = (text) => {
    const word = text.toLowerCase().replace(/[-_\s]+/g, " ").trim();
    return { yes: "true", no: "false" }[word] ?? word;
  };
  return plain(guess) === plain(answer) ? "right" : "not so";
}

// A guess at the opening of a chapter stands again where it is answered.
document.addEventListener("input", (event) => {
  if (event.target.name !== "opening") return;
  for (const input of document.querySelectorAll("form.guess [name=opening]"))
    input.value = event.target.value;
});

// For who wants to read on, and for paper.
document.addEventListener("DOMContentLoaded", () => {
  const answers = [...document.querySelectorAll("details.answer")];
  if (!answers.length) return;
  const open = document.createElement("button");
  open.className = "all-answers";
  open.textContent = "Show all answers";
  open.onclick = () => answers.forEach((answer) => (answer.open = true));
  document.querySelector("article h1").after(open);
  addEventListener("beforeprint", open.onclick);
  // A link to a place in an answer, or a word searched for, opens it.
  const target = document.getElementById(location.hash.slice(1));
  target?.closest("details.answer")?.setAttribute("open", "");
});
