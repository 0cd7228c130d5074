#!/usr/bin/env python3
"""Writes dense.pt2: a linear and an activation as torch exports them on the meta device, in bf16 and without weights."""
import torch


class Mlp(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.up_proj = torch.nn.Linear(128, 32, bias=False)

    def forward(self, x):
        return torch.nn.functional.silu(self.up_proj(x))


with torch.device("meta"):
    model = Mlp().to(torch.bfloat16)
x = torch.empty(3, 128, dtype=torch.bfloat16, device="meta")
rows = torch.export.Dim("m", min=1, max=64)
torch.export.save(torch.export.export(model, (x,), dynamic_shapes={"x": {0: rows}}), "dense.pt2")
