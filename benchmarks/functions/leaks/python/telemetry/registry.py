"""Counters by label."""

BOUNDS = (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0)


class Child:
    def __init__(self):
        self.sum = 0.0
        self.buckets = [[bound, 0.0] for bound in BOUNDS]

    def observe(self, value):
        self.sum += value
        for bucket in self.buckets:
            bucket[1] += value <= bucket[0]


class Histogram:
    def __init__(self, name, labels):
        self.name, self.label_names, self.children = name, labels, {}

    def labels(self, *values):
        if values not in self.children:
            self.children[values] = Child()  # LEAK request_metrics
        return self.children[values]
