# SPDX-License-Identifier: Apache-2.0
"""The functions of scripts/plotting on known data. plot_test.sh runs it and the whole program."""

import copy
import io
import os
import sys
import tempfile
import unittest
import xml.etree.ElementTree as xml

import matplotlib.colors

root = os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..")
sys.path.insert(0, os.path.join(root, "scripts"))
from plotting import busbw, drawing, simulation, style, timeline  # noqa: E402
from plotting.model import (Bar, Figure, Panel, PlotError, Series, Window,  # noqa: E402
                            binary_size, label_rows, lasting, scaled_unit)

TIMELINE = """time_s,total_gbps,plane0_gbps,plane1_gbps,retransmits,event
0.1,10,4,6,0,on: loss=0.001; size 64K
0.2,10,4,6,5,on: plane 1 down
0.4,5,5,0,7,
0.5,10,4,6,1,off: plane 1 down
"""

REPORT = {
    "version": 2, "title": "a title", "seed": 3, "interrupted": False,
    "plots": [
        {"show": "goodput", "title": "Goodput", "height": 220, "log_x": False, "x_label": "",
         "reference": 800, "reference_label": "line rate"},
        {"show": "queue deepest", "title": "", "height": 100, "log_x": False, "x_label": ""},
        {"show": "completion_times", "title": "", "height": 220, "log_x": True, "x_label": ""},
        {"show": "summary", "title": "", "height": 220, "log_x": False, "x_label": "loss (%)",
         "metric": "p99", "unit": "us"}],
    "runs": [{
        "name": f"run {n}", "line": "a line", "x": 2 - n, "end_us": 1000,
        "metrics": {"p99": 10.0 + n, "bus_bandwidth": None}, "flows": [{"gbps": 7.5}],
        "host_gbps": {"all": [0, 150, 50]},
        "faults": [{"at_us": 0, "kind": "loss", "target": "p1", "value": 0.01},
                   {"at_us": 200, "kind": "down", "target": "p0t1-2", "value": None},
                   {"at_us": 400, "kind": "up", "target": "p0t1-2", "value": None},
                   {"at_us": 500, "kind": "loss", "target": "h0", "value": 0.2},
                   {"at_us": 600, "kind": "loss", "target": "h0", "value": 0},
                   {"at_us": 700, "kind": "slow", "target": "h1", "value": 4},
                   {"at_us": 2000, "kind": "kill", "target": "h1", "value": None}],
        "completion_us": {"distribution": {"us": [5, 5, 9], "percent": [0, 50, 100]}},
        "samples": {"start_us": 0, "width_us": 250, "series": [
            {"name": "goodput", "unit": "Gb/s", "values": [100, 200, 300 + n, 400]},
            {"name": "queue deepest", "unit": "bytes", "values": [0, 64000, 2000, 0]}]},
    } for n in range(2)] + [{"name": "not run", "line": "a line", "x": 9}]}


def read_timeline(text):
    return timeline.read("name.csv", io.StringIO(text))


def report_with(change):
    report = copy.deepcopy(REPORT)
    change(report)
    return report


class TimelineTest(unittest.TestCase):
    def test_columns(self):
        t = read_timeline(TIMELINE)
        self.assertEqual(t.times, [0.1, 0.2, 0.4, 0.5])
        self.assertEqual(t.starts(), [0, 0.1, 0.2, 0.4])
        self.assertEqual(t.planes, [[4, 4, 5, 4], [6, 6, 0, 6]])
        self.assertEqual(t.retransmits, [0, 5, 7, 1])

    def test_windows(self):
        self.assertEqual(timeline.windows(read_timeline(TIMELINE)),
                         [Window("size 64K", 0, 0), Window("loss=0.001", 0, 0.5),
                          Window("plane 1 down", 0.1, 0.4)])

    def test_figure(self):
        figure = timeline.figure(read_timeline(TIMELINE))
        rates, again = figure.panels
        self.assertEqual([s.name for s in rates.series], ["plane 0", "plane 1", "total"])
        self.assertEqual(rates.series[0].x, [0, 0.05, 0.15000000000000002, 0.30000000000000004,
                                             0.45, 0.5])
        self.assertEqual(rates.series[1].below, rates.series[0].y)
        self.assertEqual(rates.series[1].y, [10, 10, 10, 5, 10, 10])
        self.assertEqual(rates.subtitle, "mean 8.00 Gb/s · throughout: loss=0.001")
        self.assertEqual([w.label for w in rates.windows], ["size 64K", "plane 1 down"])
        self.assertEqual((again.series[0].x, again.series[0].y),
                         ([0, 0.1, 0.2, 0.4, 0.5], [0, 5, 7, 1]))

    def test_many_intervals_are_merged(self):
        t = timeline.merged(read_timeline(TIMELINE), 2)
        self.assertEqual(t.times, [0.2, 0.5])
        self.assertEqual(t.retransmits, [5, 8])
        self.assertAlmostEqual(t.totals[1], (5 * 0.2 + 10 * 0.1) / 0.3)
        self.assertAlmostEqual(t.planes[1][1], 6 * 0.1 / 0.3)

    def test_intervals_of_no_length(self):
        t = read_timeline(TIMELINE + "0.5,99,99,99,3,size 1M\n0.6,1,1,0,2,\n")
        self.assertEqual(t.times[-2:], [0.5, 0.6])
        self.assertEqual(t.totals[-2:], [10, 1])
        self.assertEqual(t.retransmits[-2:], [4, 2])
        self.assertEqual(t.events[-2:], ["off: plane 1 down; size 1M", ""])

    def test_errors(self):
        lines = TIMELINE.splitlines(keepends=True)
        for text, cause in [(lines[0], "no lines below.*--timeline-interval"),
                            (TIMELINE.replace("retransmits", "other"), "no column 'retransmits'.*--timeline"),
                            (TIMELINE.replace("plane", "path"), "plane0_gbps"),
                            (TIMELINE + "0.6,10", "cut short"),
                            (lines[0] + lines[2] + lines[1], "goes back"),
                            (lines[0] + "0.0,10,4,6,0,\n", "shorter than a millisecond")]:
            with self.assertRaisesRegex(PlotError, cause):
                read_timeline(text)


class SimulationTest(unittest.TestCase):
    def figure(self, report=None):
        return simulation.figure("name.json", REPORT if report is None else report)

    def test_over_time(self):
        panel = self.figure().panels[0]
        self.assertEqual([s.name for s in panel.series], ["run 0", "run 1"])
        self.assertEqual(panel.series[1].y, [100, 200, 301, 400])
        self.assertEqual(panel.series[1].x, [0.000125, 0.000375, 0.000625, 0.000875])
        self.assertEqual((panel.x_range, panel.y_unit), ((0, 0.001), "Gb/s"))
        self.assertEqual((panel.reference, panel.reference_label), (800, "line rate"))
        self.assertEqual(panel.subtitle, "a title; seed 3")

    def test_faults(self):
        found = self.figure().panels[0].windows
        self.assertEqual([(w.label, round(w.start * 1e6), round(w.end * 1e6)) for w in found],
                         [("p0t1-2 down", 200, 400), ("h0 20 % loss", 500, 600),
                          ("h1 4 x slower", 700, 1000)])
        many = [{"at_us": 10, "kind": "kill", "target": "h1", "value": None}] * 25
        report = report_with(lambda r: r["runs"][0].update(faults=many))
        self.assertEqual(self.figure(report).panels[0].windows, [])

    def test_completion_times(self):
        panel = self.figure().panels[2]
        self.assertEqual([x * 1e6 for x in panel.series[0].x], [5, 5, 9])
        self.assertEqual((panel.series[0].y, panel.series[0].kind), ([0, 50, 100], "step"))
        self.assertTrue(panel.log_x)

    def test_summary(self):
        panel = self.figure().panels[3]
        self.assertEqual([(s.name, s.x, [round(y * 1e6) for y in s.y]) for s in panel.series],
                         [("a line", [1, 2], [11, 10])])
        self.assertEqual((panel.x_label, panel.y_unit), ("loss (%)", "s"))
        run = REPORT["runs"][0]
        self.assertEqual(simulation.value(run, "flow 0"), 7.5)
        self.assertIsNone(simulation.value(run, "flow 1"))
        self.assertEqual(simulation.value(run, "goodput h1"), 150)
        self.assertIsNone(simulation.value(run, "goodput h3"))
        self.assertIsNone(simulation.value(run, "bus_bandwidth"))

    def test_summary_without_x_is_bars(self):
        def no_x(report):
            for run in report["runs"]:
                run["x"] = None
        panel = self.figure(report_with(no_x)).panels[3]
        self.assertEqual([(b.name, round(b.value * 1e6), b.slot) for b in panel.bars],
                         [("run 0", 10, 0), ("run 1", 11, 1)])
        self.assertEqual((panel.series, panel.x_unit), ([], "s"))

    def test_some_variants_keep_their_colours(self):
        report = report_with(lambda r: [plot.update(variants=["run 1"]) for plot in r["plots"]])
        panels = self.figure(report).panels
        for panel in panels[:3]:
            self.assertEqual([(s.name, s.slot) for s in panel.series], [("run 1", 1)])
        self.assertEqual(panels[3].series[0].x, [1])

    def test_many_runs_have_colours_of_their_own(self):
        def many(report):
            run = report["runs"][0]
            report["runs"] = [{**run, "name": f"run {n}", "x": 2 ** n, "line": f"line {n}"}
                              for n in range(12)]
            report["plots"][3]["log_x"] = True
        panels = self.figure(report_with(many)).panels
        for panel in panels:
            self.assertEqual(len({s.color for s in panel.series}), 12)
        self.assertEqual([text for _, text in panels[3].x_ticks][-2:], ["1,024", "2,048"])

    def test_goodput_per_host(self):
        report = report_with(lambda r: r["plots"][0].update(show="goodput per host"))
        panel = self.figure(report).panels[0]
        self.assertEqual(panel.series[0].y, [50, 100, 150, 200])  # of two hosts that receive
        self.assertEqual(panel.y_label, "goodput per host")

    def test_errors(self):
        def drop(*path):
            def change(report):
                for key in path[:-1]:
                    report = report[key]
                del report[path[-1]]
            return change
        for change, cause in [(drop("runs"), "no report of mrc_sim"),
                              (lambda r: r.update(version=1), "another version.*run the scenario again"),
                              (drop("runs", 0, "faults"), "damaged .* 'faults' is missing"),
                              (lambda r: r["plots"][0].update(show="x"), "damaged .* no series 'x'")]:
            with self.assertRaisesRegex(PlotError, cause):
                self.figure(report_with(change))
        with self.assertRaisesRegex(PlotError, "no report"):
            self.figure([])


class BusBandwidthTest(unittest.TestCase):
    def test_panels_share_a_legend(self):
        sizes = [{"size": 4 ** n << 14, "mrc": [2, 1, 3], "socket": [4 * n + 4]} for n in range(3)]
        cases = [{"title": f"case {n}", "collective": "all_reduce", "ranks": 2, "repetitions": 3,
                  "nets": ["mrc", "socket"], "sizes": sizes} for n in range(3)]
        figure = busbw.figure("n.json", {"cases": cases})
        self.assertEqual(figure.panels[0].series[0].y, [2, 2, 2])
        self.assertEqual((figure.columns, figure.one_legend, figure.note), (2, True, "medians of 3"))
        drawn = drawing.draw(figure)
        self.assertEqual([t.get_text() for t in drawn.legends[0].get_texts()], ["MRC", "TCP"])
        self.assertEqual([axes.get_legend() for axes in drawn.axes], [None] * 3)
        first, second, third = (axes.get_window_extent() for axes in drawn.axes)
        self.assertAlmostEqual(first.y0, second.y0)
        self.assertAlmostEqual(first.width, second.width)
        self.assertLess(first.x1, second.x0)
        self.assertAlmostEqual(first.x0, third.x0)
        self.assertAlmostEqual(first.width, third.width)
        self.assertGreater(first.y0, third.y1)
        self.assertEqual([t.get_text() for t in drawn.axes[0].get_xticklabels()],
                         ["16 KiB", "64 KiB", "256 KiB"])

    def test_ticks_that_would_overlap_have_no_text(self):
        sizes = [{"size": 2 ** n, "mrc": [1]} for n in range(3, 27)]
        case = {"title": "t", "collective": "all_reduce", "ranks": 2, "repetitions": 1,
                "nets": ["mrc"], "sizes": sizes}
        axes = drawing.draw(busbw.figure("n.json", {"cases": [case, case]})).axes[0]
        self.assertEqual(len(axes.get_xticks()), len(sizes))
        boxes = [text.get_window_extent() for text in axes.get_xticklabels() if text.get_text()]
        self.assertGreater(len(boxes), 3)
        for left, right in zip(boxes, boxes[1:]):
            self.assertLess(left.x1, right.x0)


class ModelTest(unittest.TestCase):
    def test_units(self):
        for largest, unit, expected in [(4e-3, "s", (1e-3, "ms")), (9e-7, "s", (1e-9, "ns")),
                                        (5000, "s", (1, "s")), (64e3, "B", (1e3, "kB")),
                                        (400e3, "Gb/s", (1e3, "Tb/s")), (800, "Gb/s", (1, "Gb/s")),
                                        (0.4, "Gb/s", (1e-3, "Mb/s")), (40, "GB/s", (1, "GB/s")),
                                        (64e3, "packets", (1, "packets")), (0, "s", (1, "s"))]:
            self.assertEqual(scaled_unit(largest, unit), expected)

    def test_binary_sizes(self):
        for size, expected in [(8, "8 B"), (16384, "16 KiB"), (1536, "1.5 KiB"),
                               (64 << 20, "64 MiB"), (4096 << 30, "4,096 GiB")]:
            self.assertEqual(binary_size(size), expected)

    def test_label_rows(self):
        self.assertEqual(label_rows([(0, 10), (5, 15), (20, 30), (21, 22)], gap=5),
                         [0, 1, 0, 1])
        self.assertEqual(label_rows([(0, 10)] * 3, most=2), [0, 1, None])

    def test_lasting(self):
        windows = [Window("a", 0, 10), Window("b", 2, 4)]
        self.assertEqual(lasting(windows, 10), ([windows[1]], ["a"]))


class DrawingTest(unittest.TestCase):
    def svg(self, panel):
        return xml.fromstring(style.as_svg(drawing.draw(Figure("t", [panel])), "t"))

    def test_values_arrive(self):
        figure = simulation.figure("name.json", REPORT)
        goodput, queue, times, summary = drawing.draw(figure).axes
        self.assertEqual(goodput.lines[-1].get_xydata().tolist(),
                         [[0.125, 100], [0.375, 200], [0.625, 301], [0.875, 400]])
        self.assertEqual(goodput.get_xlim(), (0, 1))
        self.assertGreater(goodput.get_ylim()[1], 800)
        self.assertEqual(goodput.get_xlabel(), "time (ms)")
        self.assertEqual(queue.lines[-1].get_ydata().tolist(), [0, 64, 2, 0])
        self.assertEqual(times.get_xscale(), "log")
        self.assertEqual(summary.lines[-1].get_xydata().tolist(), [[1, 11], [2, 10]])

    def test_bars(self):
        bars = [Bar("a long name", 381e3, 2), Bar("b", 12e3), Bar("c", None), Bar("d", 0)]
        panel = Panel("t", "goodput", "", "Gb/s", bars=bars, reference=400e3, reference_label="line")
        figure = drawing.draw(Figure("t", [panel]))
        axes = figure.axes[0]
        self.assertEqual([round(bar.get_width()) for bar in axes.patches], [381, 12, 0, 0])
        self.assertEqual(axes.get_xlabel(), "goodput (Tb/s)")
        self.assertEqual(axes.get_xlim(), (0, 400))
        self.assertEqual([t.get_text() for t in axes.texts], ["381", "12", "none", "0"])
        self.assertEqual([t.get_text() for t in axes.get_yticklabels()],
                         ["a long name", "b", "c", "d"])
        self.assertEqual(axes.patches[0].get_facecolor()[:3], matplotlib.colors.to_rgb("#0f9d76"))
        for text in [*axes.texts, *axes.get_yticklabels(), *figure.texts]:
            box = text.get_window_extent()
            self.assertTrue(0 <= box.x0 and box.x1 <= style.WIDTH, text.get_text())

    def test_text_of_any_kind(self):
        nasty = "</text><a & \"b\" $x^2$ $ µ≥"
        svg = self.svg(Panel(nasty, nasty, nasty, nasty, nasty, subtitle=nasty,
                             series=[Series(nasty, [0, 1], [1, 2])],
                             windows=[Window(nasty, 0.5, 0.5)], reference=1, reference_label=nasty))
        texts = [t.text for t in svg.iter("{http://www.w3.org/2000/svg}text")]
        self.assertEqual(texts.count(nasty), 5)  # title, subtitle, legend, event, reference
        self.assertEqual(texts.count(f"{nasty} ({nasty})"), 2)  # axes

    def test_nothing_to_show_and_odd_ranges(self):
        for series in ([], [Series("a", [], [])], [Series("a", [2e-3], [5])],
                       [Series("a", [0, 1], [0, 0])], [Series("a", [-1, 1], [-5, 5])],
                       [Series("a", [3, 3], [1e30, 1e-30])]):
            for log_x in (False, True):
                svg = self.svg(Panel("t", "x", "y", "s", "B", series=series, log_x=log_x))
                shown = "".join(svg.itertext())
                self.assertEqual("no data" in shown, not any(s.x for s in series))
                self.assertNotIn("nan", shown)

    def test_labels_do_not_overlap(self):
        windows = [Window(f"event number {i}", i * i % 17 / 17, i * i % 17 / 17 + 0.01)
                   for i in range(12)]
        figure = drawing.draw(Figure("t", [Panel("t", "x", "y", windows=windows,
                                                 series=[Series("a", [0, 1.2], [1, 2])])]))
        boxes = [t.get_window_extent() for t in figure.texts if "event" in t.get_text()]
        self.assertEqual(len(boxes), 12)
        for i, box in enumerate(boxes):
            self.assertLessEqual(box.x1, style.WIDTH)
            self.assertFalse(any(box.overlaps(other) for other in boxes[:i]))

    def test_repeated_events_have_one_label(self):
        windows = [Window("flap", i / 20, i / 20 + 0.02) for i in range(20)]
        figure = drawing.draw(Figure("t", [Panel("t", "x", "y", windows=windows,
                                                 series=[Series("a", [0, 1], [1, 2])])]))
        self.assertEqual([t.get_text() for t in figure.texts].count("flap"), 1)
        self.assertEqual(len(figure.axes[0].patches), 20)  # all are shaded

    def test_same_data_same_bytes(self):
        with tempfile.TemporaryDirectory() as folder:
            for kind in ("svg", "png"):
                data = []
                for n in range(2):
                    name = f"{folder}/{n}.{kind}"
                    style.save(drawing.draw(simulation.figure("n", REPORT)), "t", name, kind)
                    with open(name, "rb") as file:
                        data.append(file.read())
                self.assertEqual(data[0], data[1])


unittest.main()
