"""What /proc/cpuinfo says of the processor."""

import pytest

from t2t_lite import processor


@pytest.fixture(autouse=True)
def forgetful():
    processor.features.cache_clear()
    yield
    processor.features.cache_clear()


@pytest.mark.parametrize(
    ("text", "bfloat16", "eight_bits"),
    [
        ("processor\t: 0\nflags\t\t: fpu avx2 fma\n", False, False),
        ("flags\t: avx2 avx512f avx512_vnni avx512_bf16\n", True, True),
        ("flags\t: avx2 avx_vnni\n", False, True),
        ("flags\t: avx512f amx_bf16 amx_int8\n", True, True),
        ("Features\t: fp asimd asimddp bf16\n", True, True),
        ("Features\t: fp asimd\n", False, False),
        ("no such line\n", None, False),
        (None, None, False),
    ],
)
def test_instructions(text, bfloat16, eight_bits, tmp_path, monkeypatch):
    path = tmp_path / "cpuinfo"
    if text is not None:
        path.write_text(text)
    monkeypatch.setattr(processor, "_CPUINFO", path)
    assert processor.has_bfloat16_products() is bfloat16
    assert processor.has_8_bit_products() is eight_bits


@pytest.mark.parametrize(
    ("listed", "bfloat16", "eight_bits"),
    [
        ("hw.optional.arm.FEAT_BF16: 1\nhw.optional.arm.FEAT_DotProd: 1\n", True, True),
        ("hw.optional.arm.FEAT_BF16: 0\nhw.optional.arm.FEAT_DotProd: 1\n", False, True),
        ("", None, False),  # Intel's
    ],
)
def test_instructions_on_macos(listed, bfloat16, eight_bits, tmp_path, monkeypatch):
    sysctl = tmp_path / "sysctl"
    sysctl.write_text(f'#!/bin/sh\n[ "$1" = hw.optional.arm ] && printf "%s" "{listed}"\n')
    sysctl.chmod(0o700)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.setattr("sys.platform", "darwin")
    assert processor.has_bfloat16_products() is bfloat16
    assert processor.has_8_bit_products() is eight_bits


def test_cores_are_those_of_the_process():
    assert processor.cores() >= 1


@pytest.mark.parametrize(
    ("dtype", "flags", "is_slow"),
    [
        ("bfloat16", "avx2", True),
        ("bfloat16", "avx2 avx512_bf16", False),
        ("bfloat16", "", False),  # nothing is known
        ("float32", "avx2", False),
        ("float16", "avx2", False),
    ],
)
def test_a_slow_type_is_named_with_the_reason(dtype, flags, is_slow, tmp_path, monkeypatch):
    path = tmp_path / "cpuinfo"
    path.write_text(f"flags : {flags}\n" if flags else "")
    monkeypatch.setattr(processor, "_CPUINFO", path)
    line = processor.slow_dtype(dtype)
    assert bool(line) == is_slow
    if is_slow:
        assert "no instructions for it (such as avx512_bf16" in line
