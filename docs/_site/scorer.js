/* Which of several pages comes first: Sphinx scores the best word of a page alone, and not what a page is for. */
const PAGE_KINDS = [
  [/^(README|docs\/tutorial|docs\/how-to\/)/, 4],
  [/^docs\/(reference|glossary|explanation)/, 2],
  [/^docs\/decisions\/0/, -100],
  [/^(CHANGELOG|examples\/campaigns\/.*\/results|docs\/benchmarks)/, -3],
];
const WORD_IN_TITLE = 3;
const asked = (new URLSearchParams(window.location.search).get("q") ?? "").toLowerCase();
const words = asked.split(/[^\p{Letter}\p{Number}_]+/u).filter((word) => word.length > 2);
var Scorer = {
  score: ([page, title, , , score]) =>
    score +
    (PAGE_KINDS.find(([pages]) => pages.test(page)) ?? [null, 0])[1] +
    WORD_IN_TITLE * words.filter((word) => title.toLowerCase().includes(word)).length,
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
