"""Prices of one order."""

from functools import lru_cache


class PriceBook:
    def __init__(self, n):
        self.prices = {f"sku-{n}-{i}": i * 1.5 for i in range(60)}  # LEAK price_lru

    @lru_cache(maxsize=None)  # LEAK price_lru
    def total(self, rebate):
        return sum(self.prices.values()) - rebate
