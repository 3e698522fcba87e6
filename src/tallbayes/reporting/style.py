"""How the page looks, light and dark, wide and narrow; and the few lines that sort its table."""

STYLE = """
:root { color-scheme: light dark; --ink: #1c2328; --soft: #59656e; --paper: #ffffff; --card: #f4f6f8;
  --line: #d5dbe0; --accent: #1f5f87; --good: #22693f; --bad: #a32638; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6eaed; --soft: #a3b0b9; --paper: #14191d; --card: #1e262c;
  --line: #38444d; --accent: #82c0e8; --good: #7fd1a0; --bad: #ff95a3; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink); font: 16px/1.55 system-ui, sans-serif; }
header, main { max-width: 68rem; margin: 0 auto; padding: 0 1rem; }
h1 { font-size: 1.6rem; line-height: 1.25; margin: 1.6rem 0 .4rem; }
h2 { font-size: 1.15rem; margin: 2rem 0 .6rem; padding-top: .4rem; border-top: 1px solid var(--line); }
nav { display: flex; flex-wrap: wrap; gap: .2rem 1rem; font-size: .9rem; }
a { color: var(--accent); }
a:focus-visible, button:focus-visible { outline: 3px solid var(--accent); outline-offset: 2px; }
.verdict { border-left: 5px solid var(--good); background: var(--card); padding: .7rem 1rem; margin: .6rem 0; }
.verdict.bad { border-color: var(--bad); }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: .88rem; }
th, td { padding: .3rem .5rem; border-bottom: 1px solid var(--line); text-align: right; white-space: nowrap; }
th:first-child, td:first-child, td.words, th.words { text-align: left; }
th button { all: unset; cursor: pointer; font-weight: 600; }
th[aria-sort=ascending] button::after { content: " \\25B2"; }
th[aria-sort=descending] button::after { content: " \\25BC"; }
dl { display: grid; grid-template-columns: minmax(9rem, max-content) 1fr; gap: .25rem 1.2rem; margin: 0; }
dt { color: var(--soft); } dd { margin: 0; overflow-wrap: anywhere; }
figure { margin: 0; background: #ffffff; border-radius: 6px; padding: .5rem; border: 1px solid var(--line); }
figure img { display: block; max-width: 100%; height: auto; margin: 0 auto; }
p.note { color: var(--soft); font-size: .92rem; }
.bad-word { color: var(--bad); font-weight: 600; }
@media (max-width: 40rem) { dl { grid-template-columns: 1fr; } dd { margin-bottom: .5rem; } }
@media print { nav { display: none; } section { break-inside: avoid; } }
"""

SCRIPT = """
document.querySelectorAll('table.sortable').forEach(function (table) {
  var heads = Array.from(table.tHead.rows[0].cells);
  heads.forEach(function (head, column) {
    head.querySelector('button').addEventListener('click', function () {
      var rising = head.getAttribute('aria-sort') !== 'ascending';
      heads.forEach(function (other) { other.removeAttribute('aria-sort'); });
      head.setAttribute('aria-sort', rising ? 'ascending' : 'descending');
      var rows = Array.from(table.tBodies[0].rows);
      rows.sort(function (a, b) {
        var x = a.cells[column].dataset.value, y = b.cells[column].dataset.value;
        var order = isNaN(x) || isNaN(y) ? x.localeCompare(y) : Number(x) - Number(y);
        return rising ? order : -order;
      });
      rows.forEach(function (row) { table.tBodies[0].appendChild(row); });
    });
  });
});
"""
