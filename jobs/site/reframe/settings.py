"""A system for ReFrame: any Slurm cluster with srun. Sites have a file of their own instead."""
site_configuration = {
    "systems": [{
        "name": "cluster",
        "descr": "the cluster that this runs on",
        "hostnames": [".*"],
        "partitions": [{
            "name": "default",
            "scheduler": "squeue",
            "launcher": "srun",
            "access": [],
            "environs": ["builtin"],
            "max_jobs": 4,
        }],
    }],
    "environments": [{"name": "builtin"}],
}
