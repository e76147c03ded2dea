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
    const row = head.closest("table").querySelector("tbody tr");
    row.cells[head.cellIndex].textContent = guess || "–";
  }
});

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
