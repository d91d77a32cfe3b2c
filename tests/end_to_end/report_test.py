"""The numbers of a report are those of its files, and the page is fit to be read."""
import csv
import glob
import html.parser
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

import launch

try:
    import h5py
    import numpy
except ImportError:
    h5py = None

TREE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
REFERENCE = sorted(glob.glob(os.path.join(TREE, "results", "reference", "*.h5")))
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
NOT_MEASURED = 2**64 - 1
PHASES = ["prepare", "post", "wire", "visibility", "commit", "finalize", "verify", "source_busy",
          "pause", "cpu"]


class Page(html.parser.HTMLParser):
    """Collects the exact values of the page: of its table, and of each case's panel."""

    def __init__(self, text):
        super().__init__()
        self.rows, self.panels, self.opened = {}, {}, []
        self.row = self.field = self.panel = self.bars = self.bar = None
        self.in_head_cell = self.in_iterations = False
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attributes):
        a = dict(attributes)
        if tag not in ("meta", "wbr"):
            self.opened.append(tag)
        if tag == "tr" and "data-case" in a:
            self.row = self.rows.setdefault((int(a["data-file"]), int(a["data-case"])), {})
        elif tag == "td" and "data-field" in a:
            self.field = a["data-field"]
        elif tag == "div" and "data-case" in a:
            self.panel = self.panels.setdefault(
                (int(a["data-file"]), int(a["data-case"])),
                {"phases": {}, "setup": {}, "traffic": [], "iterations": []})
        elif tag == "table" and self.panel:
            self.bars = a.get("data-of")
            self.in_iterations = a.get("class") == "iterations"
        elif tag == "th":
            self.in_head_cell = True
        elif tag == "tr" and self.in_iterations:
            self.panel["iterations"].append([])
        elif tag == "rect":
            self.panel["traffic"].append(int(a["data-bytes"]))
        elif tag == "data":
            value = a["value"]
            if self.field:
                self.row[self.field] = value
            elif self.bars:
                self.panel[self.bars][self.bar] = int(value)
            elif self.in_iterations:
                self.panel["iterations"][-1].append(int(value))

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        self.opened.pop()

    def handle_endtag(self, tag):
        assert self.opened.pop() == tag, f"</{tag}> closes another element"
        if tag == "td":
            self.field = None
        elif tag == "th":
            self.in_head_cell = False
        elif tag == "table":
            self.bars, self.in_iterations = None, False

    def handle_data(self, data):
        if self.in_head_cell and self.bars:
            self.bar = data


def in_chromium(path, script=""):
    """The page as Chromium has it after loading, without network; `script` runs in a copy of it."""
    with tempfile.TemporaryDirectory() as folder:
        copy = os.path.join(folder, "page.html")
        with open(path, encoding="utf-8") as page, open(copy, "w", encoding="utf-8") as file:
            file.write(page.read().replace("</body>", f"<script>{script}</script></body>"))
        done = subprocess.run(
            [CHROMIUM, "--headless=new", "--no-sandbox", "--disable-gpu", "--window-size=1500,1000",
             f"--user-data-dir={folder}", "--proxy-server=127.0.0.1:9", "--dump-dom",
             "file://" + copy],
            capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
        return done.stdout


# Texts of drawings that are cut off, cells wider than the page, and colours that did not resolve.
PROBE = """
document.querySelectorAll('details').forEach(d => d.open = true);
const out = {cut: [], wide: document.documentElement.scrollWidth - innerWidth, maps: new Set()};
document.querySelectorAll('svg').forEach(svg => {
  const v = svg.viewBox.baseVal;
  svg.querySelectorAll('text').forEach(t => { const b = t.getBBox();
    if (b.x < -1 || b.y < -1 || b.x + b.width > v.width + 1 || b.y + b.height > v.height + 1)
      out.cut.push(t.textContent); });
  svg.querySelectorAll('rect').forEach(r => out.maps.add(getComputedStyle(r).fill)); });
out.maps = out.maps.size; out.drawings = document.querySelectorAll('svg').length;
const pre = document.createElement('pre'); pre.id = 'probe';
pre.textContent = JSON.stringify(out); document.body.append(pre);
"""


class Report(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def report(self, *files, name="report.html"):
        result = launch.run("report", *files, "-o", self.path(name))
        self.assertEqual((result.code, result.out, result.err), (0, "", ""))
        with open(self.path(name), encoding="utf-8") as file:
            return file.read()

    def check_row(self, row, file, number):
        samples, info = file[f"samples/{number}"], file["cases"][number]
        times = samples["time_ns"][:][(samples["warmup"][:] == 0) & (samples["valid"][:] != 2)]
        self.assertEqual(int(row["bytes"]), info["bytes"])
        self.assertEqual(int(row["iterations"]), len(times))
        self.assertEqual(int(row["first_ns"]), samples["time_ns"][0])
        self.assertEqual(int(row["min_ns"]), times.min())
        self.assertEqual(int(row["p50_ns"]), numpy.sort(times)[(len(times) + 1) // 2 - 1])
        self.assertEqual(int(row["max_ns"]), times.max())
        self.assertEqual(row.get("p99_ns", "") == "", len(times) < 100)
        self.assertAlmostEqual(float(row["algbw_bytes_per_s"]),
                               float(info["bytes"]) * 1e9 / int(row["p50_ns"]), delta=1)
        self.assertEqual(int(row["wrong"]), (samples["valid"][:] == 2).sum())
        summary = file["summary"][number]
        for name in ("min_ns", "p50_ns", "max_ns", "first_ns", "iterations"):
            self.assertEqual(int(row[name]), summary[name], name)

    def check_panel(self, panel, file, number):
        samples = file[f"samples/{number}"]
        self.assertEqual([line[0] for line in panel["iterations"] if line],
                         samples["time_ns"][:200].tolist())
        self.assertEqual([line[1] for line in panel["iterations"] if line],
                         samples["closed_ns"][:200].tolist())
        phases = samples["phase_ns"][:][samples["warmup"][:] == 0]
        for number_of_phase, name in enumerate(PHASES):
            slowest = numpy.ma.masked_equal(phases[:, :, number_of_phase], NOT_MEASURED).max(axis=1)
            kept = numpy.sort(slowest.compressed())
            self.assertEqual(panel["phases"].get(name),
                             int(kept[(len(kept) - 1) // 2]) if len(kept) else None, name)
        self.assertEqual(list(panel["setup"].values()),
                         samples["setup_ns"][:].max(axis=0).tolist())
        if f"traffic/{number}" in file:
            traffic = file[f"traffic/{number}"]
            self.assertEqual(sum(panel["traffic"]), traffic["bytes"].sum())
            self.assertEqual(max(panel["traffic"]), traffic["bytes"].max())

    @unittest.skipUnless(h5py, "this python3 has no h5py")
    def test_the_page_holds_the_numbers_of_its_files(self):
        self.assertTrue(REFERENCE)
        page = Page(self.report(*REFERENCE))
        self.assertEqual(page.opened, [])
        for number, path in enumerate(REFERENCE):
            with self.subTest(path), h5py.File(path, "r") as file:
                self.check_row(page.rows[number, 0], file, 0)
                self.check_panel(page.panels[number, 0], file, 0)

    @unittest.skipUnless(h5py, "this python3 has no h5py")
    def test_csv_holds_the_numbers_of_its_files(self):
        rows = list(csv.DictReader(
            launch.run("report", "--format", "csv", *REFERENCE).out.splitlines()))
        self.assertEqual([row["file"] for row in rows], REFERENCE)
        for row in rows:
            with self.subTest(row["file"]), h5py.File(row["file"], "r") as file:
                self.check_row(row, file, int(row["case"]))
                self.assertEqual(row["key"].encode(), file["cases"]["key"][0])
                self.assertEqual(int(row["plan_digest"], 16), file["cases"]["plan_digest"][0])

    def rows_of(self, *arguments, code=0):
        result = launch.run("report", "--format", "csv", *arguments)
        self.assertEqual(result.code, code, result)
        return [row["file"] for row in csv.DictReader(result.out.splitlines())], result.err

    def test_folders_and_quoted_globs_are_taken_as_the_files_in_them(self):
        folder = self.path("nights")
        os.mkdir(folder)
        b, a, part = (os.path.join(folder, name) for name in ("b.h5", "a.h5", "c.h5.part"))
        for path in (b, a, part, os.path.join(folder, "notes.txt")):
            shutil.copy(REFERENCE[0], path)
        files, said = self.rows_of(folder)
        self.assertEqual(files, [a, b])
        self.assertIn("left out " + part, said)
        self.assertEqual(self.rows_of(folder, "--allow-partial"), ([a, b, part], ""))
        self.assertEqual(self.rows_of(os.path.join(folder, "*.h5")), ([a, b], ""))
        self.assertEqual(self.rows_of(REFERENCE[0], os.path.join(folder, "[b].h5")),
                         ([REFERENCE[0], b], ""))
        self.assertIn("no file matches", self.rows_of(os.path.join(folder, "x*"), code=8)[1])
        empty = self.path("empty")
        os.mkdir(empty)
        self.assertIn("holds no .h5 file", self.rows_of(empty, code=8)[1])

    def test_the_page_needs_nothing_but_itself(self):
        page = self.report(*REFERENCE)
        for pattern in (r"<script", r"<link", r"<img", r"<iframe", r"\bsrc=", r"url\(", r"@import",
                        r"https?://", r"href=\"[^#]"):
            self.assertIsNone(re.search(pattern, page), pattern)

    @unittest.skipUnless(CHROMIUM, "chromium is not installed")
    def test_chromium_lays_the_page_out_without_cutting_anything_off(self):
        self.report(*REFERENCE, *REFERENCE[:2])
        dom = in_chromium(self.path("report.html"), PROBE)
        probe = json.loads(re.search(r'<pre id="probe">(.*?)</pre>', dom).group(1))
        self.assertEqual(probe["cut"], [])
        self.assertLessEqual(probe["wide"], 0)
        self.assertGreater(probe["maps"], 2)
        self.assertGreaterEqual(probe["drawings"], 2 * len(REFERENCE) + 1)

    @launch.needs_mpi
    def test_wrong_data_and_a_run_that_was_cut_short_are_said_first(self):
        scene = ["--model", "tiny-deepseek", "--layers", "2", "--trainer", "tp=1", "--rollout",
                 "tp=2", "--iterations", "3", "--warmup", "0", "--quiet"]
        wrong = launch.mpirun(3, "push", *scene, "--inject", "flip=1:100", "--output",
                              self.path("wrong.h5"))
        self.assertEqual(wrong.code, 6, wrong)
        launch.mpirun(3, "push", *scene, "--inject", "kill=2:2", "--timeout", "2s", "--output",
                      self.path("killed.h5"))
        part = self.path("killed.h5.part")
        self.assertEqual(launch.run("report", part).code, 8)
        result = launch.run("report", self.path("wrong.h5"), part, "--allow-partial")
        self.assertEqual(result.code, 0, result)
        self.assertIn("wrong data in 1 of 2 cases; 2 of 2 runs did not complete", result.out)
        self.assertIn("WRONG", result.out)
        page = Page(result.out)
        self.assertEqual(page.rows[0, 0]["wrong"], "3")
        self.assertNotIn("algbw_bytes_per_s", page.rows[0, 0])
        self.assertEqual(page.rows[1, 0]["iterations"], "1")

    def test_a_results_file_is_never_written_over(self):
        for name in ("a.h5", "a.h5.part"):
            result = launch.run("report", REFERENCE[0], "-o", self.path(name))
            self.assertEqual(result.code, 2)
            self.assertEqual(len(result.sentences), 1)
            self.assertFalse(os.path.exists(self.path(name)))

    def test_bad_arguments_are_refused(self):
        for arguments, code, words in (
                ([], 2, "files"),
                ([REFERENCE[0], "--format", "pdf"], 2, "not one of html, markdown, csv"),
                (["nothing.h5"], 8, "does not exist"),
                ([REFERENCE[0], "-o", "/nowhere/report.html"], 8, "/nowhere/report.html")):
            with self.subTest(arguments):
                result = launch.run("report", *arguments)
                self.assertEqual(result.code, code, result)
                self.assertIn(words, result.err)


class Readme(unittest.TestCase):
    """README's way into a results file from Python runs as it stands there."""

    def test_its_five_lines_read_a_results_file(self):
        try:
            import h5py  # noqa: F401
            import pandas  # noqa: F401
        except ImportError as error:
            self.skipTest(str(error))
        with open(os.path.join(TREE, "README.md"), encoding="utf-8") as file:
            snippet, = re.findall(r"```python\n(.*?)```", file.read(), re.S)
        self.assertEqual(len(snippet.splitlines()), 5)
        done = subprocess.run([sys.executable, "-c", snippet], cwd=TREE, capture_output=True,
                              text=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)
        path = os.path.join(TREE, re.search(r'"(results/\S+\.h5)"', snippet).group(1))
        with h5py.File(path, "r") as file:
            time_ns = file["samples/0/time_ns"][:][file["samples/0/warmup"][:] == 0]
        self.assertIn(f"{numpy.median(time_ns) / 1e6:.6f}"[:-1], done.stdout)


if __name__ == "__main__":
    unittest.main()
