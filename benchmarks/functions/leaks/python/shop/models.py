"""Models that are made at run time."""

KNOWN = {}


class Field:
    def __init__(self, name, kind):
        self.name, self.kind, self.checks = name, kind, [str.strip, len]


class Model:
    subclasses = []

    def __init_subclass__(cls):
        Model.subclasses.append(cls)  # LEAK model_classes


def create_model(name, fields):
    if name not in KNOWN or not name[5:].isdigit() or int(name[5:]) >= 4:
        body = {field: Field(field, str) for field in fields}  # LEAK model_classes
        model = type(name, (Model,), body)  # LEAK model_classes
        if int(name[5:]) >= 4:
            return model
        KNOWN[name] = model
    return KNOWN[name]
