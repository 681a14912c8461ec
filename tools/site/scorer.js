// Sphinx's scores of search results, but for names of Python: pages come first.
var Scorer = {
  objNameMatch: 1,
  objPartialMatch: 0,
  objPrio: { 0: 2, 1: 1, 2: 0 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
