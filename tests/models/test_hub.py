"""Weights from the hub: the local cache, the download, and the advice without a network."""

import socket

import pytest

from surelabel.errors import ConfigError
from surelabel.models import weights

huggingface_hub = pytest.importorskip("huggingface_hub")
REPOSITORY = "timm/resnet50.tv_in1k"


@pytest.fixture
def hub_cache(monkeypatch):
    """The local cache of the hub, by file name."""
    files = {}
    monkeypatch.setattr(huggingface_hub, "try_to_load_from_cache", lambda _, name: files.get(name))
    for name in ("HF_HUB_OFFLINE", "HF_ENDPOINT", "http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(weights, "getproxies", dict)
    return files


def message() -> str:
    with pytest.raises(ConfigError) as caught:
        weights.fetch_weights(REPOSITORY)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def no_network(*args, **kwargs):
    raise socket.gaierror("Name or service not known")


def must_not_be_called(*args, **kwargs):
    raise AssertionError("the hub was asked")


def test_from_the_cache_without_a_connection(hub_cache, monkeypatch):
    monkeypatch.setattr(socket, "create_connection", must_not_be_called)
    monkeypatch.setattr(huggingface_hub, "hf_hub_download", must_not_be_called)
    hub_cache["pytorch_model.bin"] = "/somewhere/pytorch_model.bin"
    assert str(weights.fetch_weights(REPOSITORY)) == "/somewhere/pytorch_model.bin"


def test_without_a_network_the_error_explains_how_to_bring_a_file(hub_cache, monkeypatch):
    monkeypatch.setattr(socket, "create_connection", no_network)
    monkeypatch.setattr(huggingface_hub, "hf_hub_download", must_not_be_called)
    text = message()
    assert "the hub does not answer" in text
    assert "download https://huggingface.co/timm/resnet50.tv_in1k/resolve/main/model.safetensors" in text
    assert "set model.weights=/path/to/model.safetensors" in text


def test_offline_mode_is_respected(hub_cache, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr(socket, "create_connection", must_not_be_called)
    assert "the hub does not answer" in message()


def test_downloads_the_first_file_that_exists(hub_cache, monkeypatch):
    asked = []

    def download(repository, name):
        asked.append((repository, name))
        if name == "model.safetensors":
            raise OSError("404: no such\nfile")
        return f"/cache/{name}"

    monkeypatch.setattr(weights, "_is_reachable", lambda: True)
    monkeypatch.setattr(huggingface_hub, "hf_hub_download", download)
    assert str(weights.fetch_weights(REPOSITORY)) == "/cache/pytorch_model.bin"
    assert asked == [(REPOSITORY, "model.safetensors"), (REPOSITORY, "pytorch_model.bin")]


def test_a_failed_download_has_its_reason_in_the_error(hub_cache, monkeypatch):
    def download(repository, name):
        raise RuntimeError("401\nnot allowed")

    monkeypatch.setattr(weights, "_is_reachable", lambda: True)
    monkeypatch.setattr(huggingface_hub, "hf_hub_download", download)
    assert "could not be downloaded (401 not allowed)" in message()


@pytest.mark.parametrize("proxies", [{"https": "http://proxy:3128"}])
def test_behind_a_proxy_the_hub_counts_as_reachable(hub_cache, monkeypatch, proxies):
    monkeypatch.setattr(weights, "getproxies", lambda: proxies)
    monkeypatch.setattr(socket, "create_connection", must_not_be_called)
    assert weights._is_reachable()
