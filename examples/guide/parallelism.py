"""What fits on which GPU: the memory of a model in training, for each kind of parallelism.

python parallelism.py --parameters 7e9 --ranks 8
"""

import argparse

GIB = 2**30
GPUS = {24: "RTX 4090", 40: "A100 40 GB", 80: "A100 or H100 80 GB", 141: "H200"}
"GiB on the label, with an example."

# Bytes per parameter with Adam. The optimizer's 12: an fp32 copy of the weights, and two moments in fp32.
MIXED = {"weights": 2, "gradients": 2, "optimizer": 12}
# torch.autocast keeps the weights in fp32 and caches a 16-bit copy of those it casts: 4 + 2 + 4 + 8.
AUTOCAST = {"weights": 4 + 2, "gradients": 4, "optimizer": 8}
RECIPES = {"mixed": MIXED, "autocast": AUTOCAST}

SHARDED = {
    "DDP": (),
    "ZeRO-1": ("optimizer",),
    "ZeRO-2": ("optimizer", "gradients"),
    "FSDP, ZeRO-3": ("optimizer", "gradients", "weights"),
}
"What each kind divides among the ranks; a rank holds the rest in full."


def bytes_per_parameter(recipe, sharded, ranks):
    """The average on one rank."""
    return sum(size / ranks if part in sharded else size for part, size in recipe.items())


def smallest_gpu(needed):
    """The smallest GPU of the list with `needed` GiB, or a dash."""
    return next((f"{size} GiB ({name})" for size, name in GPUS.items() if size >= needed), "-")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--parameters", type=float, default=7e9)
    parser.add_argument("--ranks", type=int, default=8)
    parser.add_argument("--recipe", choices=RECIPES, default="mixed")
    parser.add_argument(
        "--other", type=float, default=8.0, help="GiB for activations, buffers and the CUDA context"
    )
    args = parser.parse_args()

    recipe = RECIPES[args.recipe]
    total = sum(recipe.values())
    print(
        f"{args.parameters:.3g} parameters, {args.recipe}, {total} bytes each: {args.parameters * total / GIB:.1f} GiB"
    )
    print(
        f"{'on each of ' + str(args.ranks) + ' GPUs':<18}{'bytes/param':>12}{'GiB':>8}{'+ other':>9}  smallest GPU"
    )
    for kind, sharded in SHARDED.items():
        each = bytes_per_parameter(recipe, sharded, args.ranks)
        states = args.parameters * each / GIB
        needed = states + args.other
        print(f"{kind:<18}{each:>12.2f}{states:>8.1f}{needed:>9.1f}  {smallest_gpu(needed)}")


if __name__ == "__main__":
    main()
