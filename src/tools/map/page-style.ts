/** The style of the page. The colours of the levels range from the page's own to a strong colour, in light and in dark. */

const LIGHT = `--text: #1c2128; --soft: #57606a; --page: #ffffff; --line: #d0d7de; --tip: #ffffff;
  --l0: #e4e8ec; --l1: #fde68a; --l2: #fbbf24; --l3: #f97316; --l4: #dc2626; --l5: #7f1d4e;`;
const DARK = `--text: #e6edf3; --soft: #9da7b3; --page: #0d1117; --line: #30363d; --tip: #1c2128;
  --l0: #21262d; --l1: #6b4d0e; --l2: #a8730f; --l3: #e0761b; --l4: #f4694f; --l5: #ffc2b0;`;

export const PAGE_STYLE = `
:root { color-scheme: light dark; ${LIGHT} }
@media screen and (prefers-color-scheme: dark) { :root { ${DARK} } }
* { box-sizing: border-box; }
body { background: var(--page); color: var(--text); font: 15px/1.5 system-ui, sans-serif; margin: 1.5em auto;
  max-width: 1100px; padding: 0 1em; }
h1 { font-size: 1.3em; overflow-wrap: anywhere; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: 0.1em 1.2em; margin: 0 0 1em; }
dt { color: var(--soft); } dd { margin: 0; }
ul.legend { display: flex; flex-wrap: wrap; gap: 0.3em 1.3em; list-style: none; margin: 0 0 0.8em; padding: 0; }
ul.legend span { border: 1px solid var(--line); display: inline-block; height: 0.9em; margin-right: 0.45em;
  vertical-align: -0.1em; width: 0.9em; print-color-adjust: exact; }
${[0, 1, 2, 3, 4, 5].map((level) => `.level${level} { background: var(--l${level}); }`).join(' ')}
.tools { align-items: center; display: flex; gap: 0.5em; margin-bottom: 0.5em; }
button { background: var(--page); border: 1px solid var(--line); border-radius: 5px; color: var(--text); font: inherit;
  min-width: 2.2em; padding: 0.1em 0.6em; }
#view { color: var(--soft); margin-left: 0.5em; }
canvas { display: block; width: 100%; }
#overview { border: 1px solid var(--line); height: 20px; margin-bottom: 8px; cursor: pointer; }
#grid { cursor: crosshair; height: 500px; touch-action: none; }
#tip { background: var(--tip); border: 1px solid var(--line); border-radius: 5px; font-size: 0.9em; left: 0;
  padding: 0.3em 0.6em; pointer-events: none; position: fixed; top: 0; white-space: pre; }
#grid:focus-visible { outline: 2px solid var(--line); outline-offset: 4px; }
.help { color: var(--soft); font-size: 0.9em; }
@media print { .tools button, .help, #tip { display: none; } body { margin: 0; max-width: none; } }
`;
