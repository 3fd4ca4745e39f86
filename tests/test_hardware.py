"""What is said of the machine."""

import os

from vit_jax import hardware


def test_the_machine_is_described_by_what_linux_tells(monkeypatch, tmp_path):
  processors, memory = tmp_path / "cpuinfo", tmp_path / "meminfo"
  processors.write_text("processor\t: 0\nmodel name\t: A chip: fast\n")
  memory.write_text("MemTotal:  2048 kB\nMemAvailable:  1024 kB\n")
  monkeypatch.setattr(hardware, "_PROCESSORS", str(processors))
  monkeypatch.setattr(hardware, "_MEMORY", str(memory))
  found = hardware.describe()
  assert found.pop("cores") <= os.cpu_count()
  assert found == {"processor": "A chip: fast", "memory_bytes": 2 * 2**20}
  assert hardware.free_memory() == 2**20


def test_elsewhere_what_is_not_known_is_left_out(monkeypatch):
  monkeypatch.setattr(hardware, "_PROCESSORS", "/nowhere")
  monkeypatch.setattr(hardware, "_MEMORY", "/nowhere")
  assert "memory_bytes" not in hardware.describe()
  assert hardware.free_memory() is None
