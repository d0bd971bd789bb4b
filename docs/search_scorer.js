/* Scores of the search: Sphinx's, and more for each word of the query in the title of a page, so that
   one word in the title of a section does not outweigh a title with all words. Guides win ties. */
var Scorer = {
  score: ([page, title, _anchor, _description, score]) => {
    const query = new URLSearchParams(window.location.search).get("q") ?? "";
    const words = query.toLowerCase().match(/\p{L}{2,}/gu) ?? [];
    const isInTitle = (word) => title.toLowerCase().includes(word.replace(/s$/, ""));
    const share = words.filter(isInTitle).length / Math.max(words.length, 1);
    return score + 4 * share + (page.startsWith("guide/") ? 1.5 : 0);
  },
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
