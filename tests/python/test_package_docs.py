"""The code of docs/python.md that needs no torch works as written."""

import unittest

import docs


class Docs(unittest.TestCase):
    def test_fences_without_torch(self):
        self.assertEqual(docs.run_fences("python"), 3)


if __name__ == "__main__":
    unittest.main()
