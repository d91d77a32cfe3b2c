// The page's style sheet. Light and dark as the reader's system says; prints in light.
#pragma once

namespace weightlift::report {

inline constexpr const char* kStyle = R"css(
:root { color-scheme: light dark; --page:#fff; --ink:#1d2329; --soft:#5d6872; --edge:#d8dde2; --fill:#f4f6f8;
  --good:#1a7f37; --bad:#c62828; --odd:#9a6700; --heat:#0b62b8;
  --file0:#0b62b8; --file1:#c2570c; --file2:#23804d; --file3:#8a4bb0; --file4:#b0285f; --file5:#5f6b2b; }
@media (prefers-color-scheme: dark) { :root { --page:#14181c; --ink:#e4e8ec; --soft:#9aa5b0; --edge:#333b43; --fill:#1c2228;
  --good:#5fcf80; --bad:#ff7b72; --odd:#e0b040; --heat:#5fb0ff;
  --file0:#4d9fec; --file1:#e88a4a; --file2:#4fb87c; --file3:#b98ad8; --file4:#e0709c; --file5:#a3b050; } }
body { margin:0 auto; padding:1.5rem 2rem 4rem; max-width:1600px; background:var(--page); color:var(--ink);
  font:14px/1.5 system-ui, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; }
h1 { font-size:1.6rem; margin:0; } h2 { font-size:1.2rem; margin:2.2rem 0 .6rem; }
h3 { font-size:1rem; margin:.2rem 0; } h4 { font-size:.9rem; margin:1rem 0 .3rem; }
small, .note, h4 small { color:var(--soft); font-weight:normal; font-size:.85em; }
.good { color:var(--good); } .bad { color:var(--bad); } .odd { color:var(--odd); }
code { font:.9em ui-monospace, "DejaVu Sans Mono", monospace; }
.scroll { overflow-x:auto; }
table { border-collapse:collapse; font-variant-numeric:tabular-nums; }
th, td { padding:.25rem .6rem; text-align:right; white-space:nowrap; vertical-align:top; }
thead th { border-bottom:1px solid var(--edge); font-weight:600; color:var(--soft); vertical-align:bottom; }
thead th small { display:block; min-height:1.2em; }
tbody tr { border-bottom:1px solid var(--edge); }
.text th, .text td, .left { text-align:left; }
.words, .text code { white-space:pre-wrap; overflow-wrap:anywhere; text-align:left; } .results .words { min-width:12rem; white-space:normal; }
.results td.key { white-space:normal; overflow-wrap:anywhere; min-width:18rem; max-width:24rem; text-align:left; }
.results th, .results td { padding:.25rem .45rem; }
.text td:has(code) { min-width:14rem; }
.path { overflow-wrap:anywhere; white-space:normal; min-width:12rem; font-weight:normal; }
.differs > th::after { content:" ≠"; color:var(--odd); }
.results tbody { border-bottom:2px solid var(--edge); } .results tbody tr { border-bottom:0; }
.results tbody tr:hover, .text tbody tr:hover { background:var(--fill); }
.wrong td[data-field="wrong"] { color:var(--bad); font-weight:700; }
a { color:inherit; text-decoration-color:var(--soft); text-underline-offset:3px; }
b.file { display:inline-block; min-width:1.3em; padding:0 .2em; border-radius:.25em; text-align:center; color:var(--page);
  font-size:.85em; line-height:1.5; }
details { margin:.6rem 0; } summary { cursor:pointer; color:var(--soft); }
.case { border:1px solid var(--edge); border-radius:6px; padding:.5rem .9rem; margin:.5rem 0; }
.case > summary { color:var(--ink); overflow-wrap:anywhere; }
.panels { display:flex; flex-wrap:wrap; gap:1.5rem 2.5rem; margin-top:.6rem; }
.panel { flex:1 1 440px; max-width:620px; min-width:0; } .single .panel { max-width:none; }
.parts { display:grid; grid-template-columns:1fr; gap:0 2.5rem; }
@media (min-width:1100px) { .single .parts { grid-template-columns:5fr 4fr 4fr; } }
svg { max-width:100%; height:auto; display:block; }
svg.chart { width:100%; max-width:620px; } svg.wide { max-width:900px; }
svg text { fill:var(--soft); font-size:11px; } svg .name { fill:var(--ink); }
svg .end { text-anchor:end; } svg .middle { text-anchor:middle; }
svg .grid { stroke:var(--edge); stroke-width:.7; } svg .axis { stroke:var(--soft); }
svg .median { stroke:var(--mine); stroke-dasharray:5 4; } svg .floor { stroke:var(--good); }
svg .spread, svg .gap { stroke:var(--mine); stroke-opacity:.45; } svg .bound { stroke:var(--mine); stroke-width:2.5; }
svg .push { fill:var(--mine); stroke:var(--mine); stroke-width:1.3; } svg .warmup { fill:var(--page); }
svg .wrong { fill:var(--bad); stroke:var(--bad); } svg .rank { fill:var(--mine); }
svg.map rect { fill:color-mix(in srgb, var(--heat) calc(100% * var(--share)), var(--fill)); }
.bars { width:100%; } .bars tr { border:0; } .bars th { font-weight:normal; text-align:left; width:6.5rem; }
.bars th, .bars td { padding:.05rem .5rem .05rem 0; } .bars td:nth-child(2) { width:4.5rem; }
.bars i { display:block; height:.8em; margin-top:.35em; background:var(--mine); border-radius:2px; min-width:1px; }
dl { display:grid; grid-template-columns:max-content 1fr; gap:.2rem 1rem; } dt { font-weight:600; } dd { margin:0; }
@media print { .case, .panel { break-inside:avoid; } body { padding:0; } }
)css";

}  // namespace weightlift::report
