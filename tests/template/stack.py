"""The application as CloudFormation gets it."""

from deploy import application

EMPTY_ZIP = b"PK\x05\x06" + bytes(18)


def plain(template: application.Template) -> application.Template:
    """The template by AWS's own translator, with its code where `sam deploy` would have uploaded it."""
    code = {
        name: f"{name}.zip"
        for name, resource in template["Resources"].items()
        if resource["Type"].startswith("AWS::Serverless::") and resource["Properties"].get("PackageType") != "Image"
    }
    return application.translated(application.located(template, "code", code))
