/* Ask the search of a built site, as its page search.html does, and print the pages found first:

       echo '["fill gaps"]' | node .ci/search_site.js build/site

   The answer is a list in JSON with a page for each phrase, or null where nothing is found. */

const fs = require("node:fs");
const path = require("node:path");
const vm = require("node:vm");

const site = process.argv[2];
const phrases = JSON.parse(fs.readFileSync(0, "utf-8"));
// What the scripts of the page expect of a browser, without a page to write to.
const browser = vm.createContext({
  document: { getElementById: () => null },
  SPHINX_HIGHLIGHT_ENABLED: false,
  _ready: () => {},
  _: (text) => text, // which translates
  URLSearchParams,
});
browser.window = vm.runInContext("globalThis", browser);
for (const name of ["_static/language_data.js", "_static/searchtools.js", "searchindex.js"]) {
  vm.runInContext(fs.readFileSync(path.join(site, name), "utf-8"), browser, { filename: name });
}
// In the list that the page makes, the best is the last: [page, title, anchor, text, score, ...].
browser.first = (search, phrase) => search._performSearch(...search._parseQuery(phrase)).at(-1);
const found = phrases.map((phrase) => {
  browser.phrase = phrase;
  browser.location = { search: `?q=${encodeURIComponent(phrase)}` };
  return vm.runInContext("first(Search, phrase)", browser)?.[0] ?? null;
});
console.log(JSON.stringify(found));
