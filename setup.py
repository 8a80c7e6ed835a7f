"""How the wheel is laid out: everything under `hullmark/`, so that other people's site-packages gain one name."""

from setuptools import find_packages, setup

FOLDERS = ("functions", "shared", "local")
EXAMPLES = "hullmark.examples"

setup(
    packages=["hullmark", EXAMPLES, *(f"hullmark.{name}" for name in find_packages(include=[f"{folder}*" for folder in FOLDERS]))],
    package_dir={"hullmark": "hullmark", EXAMPLES: "examples", **{f"hullmark.{folder}": folder for folder in FOLDERS}},
    package_data={"": ["**/*.yaml", "**/*.html", "**/*.css", "**/*.js", "**/*.svg", "py.typed"], EXAMPLES: ["**/*"]},
)
