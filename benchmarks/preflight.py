"""Cost of the preflight of a study, in CPU time of its processes.

python benchmarks/preflight.py                        # the study of the thesis, 288 settings
python benchmarks/preflight.py --envs Hopper-v4       # a part of it
"""

import argparse
import itertools
import resource
import sys
import time
from pathlib import Path

import yaml

sys.path.insert(0, str(Path(__file__).parents[1]))

from parallax.harness.contract.recipes import read_recipe
from parallax.harness.contract.run_spec import RUN_DEFAULTS, RunSpec, make_run_spec
from parallax.slurm.preflight import run_preflight

STUDIES = Path(__file__).parents[1] / "harness" / "conf" / "study"


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--study", default="thesis")
    parser.add_argument("--envs", help="tasks instead of the study's, with commas in between")
    parser.add_argument("--frameworks", help="likewise")
    parser.add_argument("--algorithms", help="likewise")
    parser.add_argument("--processes", type=int, default=2)
    options = parser.parse_args()
    specs = list_specs(options)
    started, own = time.monotonic(), time.process_time()
    run_preflight(specs, options.processes)
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(f"settings:            {len(specs)}")
    print(f"CPU s, processes:    {children.ru_utime + children.ru_stime:.1f}")
    print(f"CPU s, this process: {time.process_time() - own:.1f}")
    print(f"seconds:             {time.monotonic() - started:.1f}")
    print(f"memory at most, MiB: {children.ru_maxrss // 1024}")


def list_specs(options: argparse.Namespace) -> list[RunSpec]:
    """Return a run of each setting of a study."""
    content = yaml.safe_load((STUDIES / f"{options.study}.yaml").read_text())
    params = content["hydra"]["sweeper"]["params"]
    names = ("framework", "algorithm", "env", "hps")
    given = (options.frameworks, options.algorithms, options.envs, None)
    values = [(text or params[name]).split(",") for name, text in zip(names, given, strict=True)]
    run = {"study": "preflight", "seed": 0, "steps": content["steps"]}
    specs = []
    for combination in itertools.product(*values):
        chosen = dict(zip(names, combination, strict=True))
        recipe = read_recipe(chosen["algorithm"], chosen["hps"])
        specs.append(make_run_spec(RUN_DEFAULTS | run | chosen, recipe, recipe))
    return specs


if __name__ == "__main__":
    main()
