#!/bin/bash
# Checks the GPU paths on a machine that has one: providers, parity with the CPU, latency, memory, TensorRT's second
# start. Under 8 minutes. Results as lines of JSON in $OUT/gpu.jsonl (default: this folder).
set -euo pipefail
cd "$(dirname "$0")/../.."
out=${OUT:-tests/gpu}
if [ -z "${COSY_PYTHON:-}" ]; then
  python3 -m venv /tmp/cosy-gpu
  COSY_PYTHON=/tmp/cosy-gpu/bin/python
  $COSY_PYTHON -m pip install -q -e '.[dev]' 'onnxruntime-gpu[cuda,cudnn]'
  $COSY_PYTHON -m pip install -q tensorrt-cu13 || echo "TensorRT is not to be had here: its checks are left out" >&2
fi
export COSY_HOME=${COSY_HOME:-/tmp/cosy-gpu-home}
nvidia-smi --query-gpu=name,driver_version,compute_cap,memory.total --format=csv
timeout 450 "$COSY_PYTHON" tests/gpu/check.py | tee "$out/gpu.jsonl"
