"""Ray: the driver, which runs on the first node, starts one task for each GPU of the job."""

import ray


@ray.remote(num_gpus=1)
def work(number: int) -> str:
    context = ray.get_runtime_context()
    return f"task {number} node {context.get_node_id()} gpu {ray.get_gpu_ids()[0]}"


def main() -> None:
    ray.init()  # joins the nodes of this job: RAY_ADDRESS is set
    gpus = int(ray.cluster_resources()["GPU"])
    print(*ray.get([work.remote(number) for number in range(gpus)]), sep="\n")


if __name__ == "__main__":
    main()
