"""The tutorials that need torch work as written, with the package that is installed here."""

import glob
import os
import subprocess
import sys
import unittest

SOURCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")


class Tutorials(unittest.TestCase):
    def test_those_that_need_torch(self):
        run = os.path.join(SOURCE, "tests", "tutorials", "run.py")
        count = 0
        for tutorial in sorted(glob.glob(os.path.join(SOURCE, "docs", "tutorials", "*.md"))):
            with open(tutorial) as file:
                if "python:torch" not in file.read():
                    continue
            with self.subTest(tutorial=os.path.basename(tutorial)):
                done = subprocess.run([sys.executable, run, tutorial, SOURCE, os.getcwd()], stdout=subprocess.PIPE,
                                      stderr=subprocess.STDOUT, text=True)
                self.assertEqual(done.returncode, 0, done.stdout)
            count += 1
        self.assertEqual(count, 3)


if __name__ == "__main__":
    unittest.main()
