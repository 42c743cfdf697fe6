"""Values for JSON."""

import json
import math

from simile_plugin.significance import without_nan


def test_nan_is_null_at_any_depth() -> None:
    value = {"a": [1.5, math.nan, ("x", {"b": -math.inf})], "c": None, "d": True}
    assert without_nan(value) == {"a": [1.5, None, ["x", {"b": None}]], "c": None, "d": True}
    assert json.loads(json.dumps(without_nan([math.nan, 2]), allow_nan=False)) == [None, 2]
