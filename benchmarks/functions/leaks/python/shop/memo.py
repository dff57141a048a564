"""A cache by arguments that may be dictionaries."""

import functools
import pickle


def memo(function):
    cache = {}

    @functools.wraps(function)
    def cached(body):
        key = pickle.dumps(body)
        if key not in cache:
            cache[key] = function(body)  # LEAK quote_memo
        return cache[key]

    return cached
