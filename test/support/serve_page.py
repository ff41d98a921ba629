#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Looks at the page of `mrc_ctl serve` in a real browser while a T1 fails and is repaired.

usage: serve_page.py URL PICTURES T1 HOST,HOST -- COMMAND...

The two hosts send to each other over all paths. T1 is such as p1t1-2; COMMAND followed by "down" or
"up" lets it fail or repairs it. Checks that the page shows as bad exactly the paths whose
routes lead over the T1, by the description's numbers alone, that it names the T1, and that it shows
all paths as good before, and after the repair. Leaves screenshots in the folder PICTURES.
"""

import os
import re
import subprocess
import sys

from webdriver import Browser

CELLS = """return [...document.querySelectorAll('button.cell')].map(cell => ({
  state: cell.dataset.state, plane: Number(cell.dataset.plane), route: cell.dataset.route,
  label: cell.getAttribute('aria-label')}))"""
LONG = 600  # seconds; only a hang takes so long


def route_over(t1, source, target):
    """The stops of a path from one host to another; host k is under T0 k."""
    plane = re.match(r"p(\d+)t1-", t1)[1]
    return f"{source} p{plane}t0-{source[1:]} {t1} p{plane}t0-{target[1:]} {target}"


class Page:
    def __init__(self, browser, folder):
        self.browser, self.folder = browser, folder

    def cells(self):
        return self.browser.run(CELLS)

    def routes(self, *states):
        return {cell["route"] for cell in self.cells() if cell["state"] in states}

    def suspects(self):
        return self.browser.run("return [...document.querySelectorAll('#fabric:not([hidden]) tbody "
                                "tr')].map(row => row.dataset.part)")

    def sentence(self):
        return self.browser.run("return document.querySelector('#verdict .sentence').textContent")

    def picture(self, name, width=1280, height=900, dark=False, whole=True):
        self.browser.screen(width, height, dark)
        self.browser.run("window.scrollTo(0, 0)")
        self.browser.screenshot(os.path.join(self.folder, name + ".png"), whole)

    def all_good(self):
        cells = self.cells()
        if not cells:
            return "no cells"
        wrong = [c["label"] for c in cells if c["state"] not in ("good", "skip", "backup")]
        return "; ".join(wrong[:8])

    def bad_are(self, expected):
        bad = self.routes("bad")
        return "" if bad == expected else f"bad are {sorted(bad)}, not {sorted(expected)}"


def no_wider_than(browser, width):
    wide = browser.run("return document.documentElement.scrollWidth")
    if wide > width:
        raise SystemExit(f"the page is {wide} pixels wide on a screen of {width}")


def check_detail(page, t1):
    """A click on a bad path shows its route, the T1 marked; Escape closes it."""
    page.browser.run("document.querySelector('button.cell.bad').click()")
    stops = page.browser.run("return [...document.querySelectorAll('#detail .way li')].map("
                             "li => [li.querySelector('strong').textContent, li.className])")
    if [t1, "stop suspect"] not in stops or len(stops) != 5:
        raise SystemExit(f"the route of a bad path is shown as {stops}")
    page.picture("path", whole=False)
    page.browser.run("document.getElementById('detail').close()")


def main(url, folder, t1, hosts, command):
    a, b = hosts.split(",")
    with Browser(log=os.path.join(folder, "chromedriver.log")) as browser:
        page = Page(browser, folder)
        browser.screen(1280, 900)
        browser.open(url)
        browser.wait(LONG, page.all_good, "before the failure")
        browser.wait(LONG, lambda: "" if browser.run("return document.body.dataset.rounds >= 12")
                     else "no further rounds", "the page goes on")
        page.picture("good")

        subprocess.run(command + ["down"], check=True, stdout=subprocess.DEVNULL)
        expected = {route_over(t1, a, b), route_over(t1, b, a)}
        browser.wait(LONG, lambda: page.bad_are(expected), f"{t1} is down")
        if t1 != page.suspects()[0] or t1 not in page.sentence():
            raise SystemExit(f"{t1} is not named first: {page.suspects()}, '{page.sentence()}'")
        for name, width, height, dark in (("bad", 1280, 900, False), ("bad-dark", 1280, 900, True),
                                          ("bad-phone", 360, 740, False)):
            page.picture(name, width, height, dark)
            no_wider_than(browser, width)
        browser.screen(1280, 900)
        check_detail(page, t1)
        for measure in ("loss", "rtt", "load"):
            browser.run("document.querySelector(`input[value=${arguments[0]}]`).click()", measure)
            page.picture(measure)
        browser.run("document.querySelector('input[value=health]').click()")

        subprocess.run(command + ["up"], check=True, stdout=subprocess.DEVNULL)
        browser.wait(LONG, page.all_good, f"{t1} is up again")
        page.picture("repaired")
        events = browser.run("return document.querySelector('#events ol').textContent")
        if "is bad" not in events or "is good again" not in events:
            raise SystemExit(f"events: {events[:500]}")
        errors = [message for message in browser.console() if "favicon" not in message]
        if errors:
            raise SystemExit(f"the browser complains: {errors}")


if __name__ == "__main__":
    if len(sys.argv) < 7 or sys.argv[5] != "--":
        sys.exit(__doc__)
    main(*sys.argv[1:5], sys.argv[6:])
