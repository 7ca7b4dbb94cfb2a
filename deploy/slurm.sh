#!/bin/bash
# Train on several machines of a Slurm cluster, in the image. Once: apptainer pull wellfed.sif docker://REGISTRY/pytorch-cuda:v2.6
#
#   sbatch deploy/slurm.sh --config configs/imagenet_resnet50.yaml --data.path /data/imagenet
#
# Arguments are those of `train fit`. One torchrun a machine starts one rank a GPU; the ranks meet through the first
# machine. Before the time limit Slurm warns them: they save and end with 138, the job goes back into the queue, and its
# next start goes on by itself from the last checkpoint (the rendezvous bears the job's name).
#SBATCH --job-name=wellfed
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node=8
#SBATCH --cpus-per-task=64
#SBATCH --mem=0
#SBATCH --time=24:00:00
#SBATCH --signal=USR1@300
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --output=wellfed-%j.log
set -euo pipefail

IMAGE=${IMAGE:-wellfed.sif}
GPUS=${GPUS:-${SLURM_GPUS_ON_NODE:-8}}
PORT=${PORT:-$((20000 + SLURM_JOB_ID % 20000))}   # two jobs on one machine do not clash
FIRST=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | sed -n 1p)

# The data and the run folder must lie on a disk that all machines see: list such disks here.
MOUNTS=${MOUNTS:-$PWD,/data}
PROGRAM=(python -m train.launch   # torchrun, ending with our exit codes
    --nnodes "$SLURM_NNODES" --nproc-per-node "$GPUS" --max-restarts "${RESTARTS:-3}"
    --rdzv-id "$SLURM_JOB_ID" --rdzv-backend c10d --rdzv-endpoint "$FIRST:$PORT"
    -m train fit --run.folder "${RUN:-runs/job-$SLURM_JOB_ID}" "$@")

code=0
srun --kill-on-bad-exit=0 apptainer exec --nv --bind "$MOUNTS" --pwd "$PWD" "$IMAGE" "${PROGRAM[@]}" || code=$?

# 138: saved on Slurm's warning, so there is something left to do.
if [[ $code -eq 138 ]]; then
    scontrol requeue "$SLURM_JOB_ID"
fi
exit "$code"
