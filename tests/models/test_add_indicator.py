"""add_indicator: a confidence branch for networks that were made without one."""

import copy
import gc
import pickle
import threading
import weakref

import pytest
import torch
from torch import nn

import surelabel
from surelabel.models import Network, make_backbone


class LikeResNet(nn.Module):
    """A convolutional network with its classifier in `fc`."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, padding=1)
        self.fc = nn.Linear(8, 4)

    def forward(self, x):
        return self.fc(self.stem(x).relu().mean((2, 3)))


class Nested(nn.Module):
    """A network inside another, called by keyword."""

    def __init__(self):
        super().__init__()
        self.inner = LikeResNet()

    def forward(self, image):
        return self.inner(x=image)


class HeadFirst(nn.Module):
    """Registers the classifier before another Linear layer, and passes its input by keyword."""

    def __init__(self):
        super().__init__()
        self.head = nn.Linear(8, 4)
        self.body = nn.Linear(6, 8)

    def forward(self, x):
        return self.head(input=self.body(x).relu())


class TwoCalls(nn.Module):
    """Uses the last Linear layer twice in one forward pass."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(6, 6)

    def forward(self, x):
        return self.layer(self.layer(x).relu())


class CastsAndCopies(nn.Module):
    """Returns equal values in another tensor."""

    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(6, 4)

    def forward(self, x):
        return self.fc(x).clone()


def sequential():
    return nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 4))


VECTOR, IMAGE = (5, 6), (5, 3, 8, 8)

KINDS = {
    "sequential": (sequential, VECTOR, None, lambda m, x: m[:2](x)),
    "like_resnet": (LikeResNet, IMAGE, None, lambda m, x: m.stem(x).relu().mean((2, 3))),
    "nested": (Nested, IMAGE, None, lambda m, x: m.inner.stem(x).relu().mean((2, 3))),
    "named_layer": (HeadFirst, VECTOR, "head", lambda m, x: m.body(x).relu()),
    "two_calls": (TwoCalls, VECTOR, None, lambda m, x: m.layer(x).relu()),
    "copied_output": (CastsAndCopies, VECTOR, None, lambda _, x: x),
    "linear_itself": (lambda: nn.Linear(6, 4), VECTOR, None, lambda _, x: x),
}


@pytest.mark.parametrize("kind", KINDS)
def test_reads_the_features_of_any_module(kind):
    make, shape, layer, features = KINDS[kind]
    torch.manual_seed(0)
    model = make()
    wrapped = surelabel.add_indicator(model, layer=layer)
    for _ in range(2):
        x = torch.randn(shape)
        logits, confidence_logit = wrapped(x)
        assert torch.equal(logits, model(x))
        torch.testing.assert_close(confidence_logit, wrapped.indicator(features(model, x)).squeeze(1))
        assert confidence_logit.shape == (5,)


@pytest.mark.parametrize("kind", ["sequential", "like_resnet", "nested", "named_layer", "two_calls"])
def test_gradient_of_tau_reaches_the_body(kind):
    make, shape, layer, _ = KINDS[kind]
    model = make()
    surelabel.add_indicator(model, layer=layer)(torch.randn(shape))[1].sigmoid().sum().backward()
    assert any(parameter.grad is not None and parameter.grad.abs().sum() > 0 for parameter in model.parameters())


def test_the_model_is_not_changed():
    model = LikeResNet()
    keys = list(model.state_dict())
    wrapped = surelabel.add_indicator(model)
    wrapped(torch.randn(IMAGE))
    assert list(model.state_dict()) == keys
    assert not model.fc._forward_hooks
    assert not model.fc._forward_pre_hooks
    assert model(torch.randn(IMAGE)).shape == (5, 4)
    assert {id(p) for p in wrapped.parameters()} > {id(p) for p in model.parameters()}
    assert len(list(wrapped.parameters())) == len(list(model.parameters())) + 2


def test_hooks_are_removed_when_the_model_fails():
    model = sequential()
    with pytest.raises(RuntimeError):
        surelabel.add_indicator(model)(torch.randn(5, 7))
    assert not model[2]._forward_hooks


def test_more_layers():
    wrapped = surelabel.add_indicator(sequential(), layers=3)
    assert [type(part).__name__ for part in wrapped.indicator] == ["Linear", "ReLU", "Linear", "ReLU", "Linear"]
    assert wrapped(torch.randn(VECTOR))[1].shape == (5,)


def test_the_branch_has_the_models_dtype():
    logits, confidence_logit = surelabel.add_indicator(sequential().double())(torch.randn(VECTOR).double())
    assert logits.dtype == confidence_logit.dtype == torch.float64


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))], ids=["deepcopy", "pickle"])
def test_copies_are_independent(copied):
    wrapped = surelabel.add_indicator(LikeResNet())
    x = torch.randn(IMAGE)
    before = wrapped(x)
    other = copied(wrapped)
    for mine, theirs in zip(before, other(x), strict=True):
        assert torch.equal(mine, theirs)
    with torch.no_grad():
        for parameter in other.parameters():
            parameter.mul_(2)
    assert torch.equal(wrapped(x)[1], before[1])
    assert not torch.equal(other(x)[1], before[1])


def test_state_dict_round_trip():
    source, target = (surelabel.add_indicator(sequential()) for _ in range(2))
    target.load_state_dict(source.state_dict())
    x = torch.randn(VECTOR)
    assert torch.equal(source(x)[1], target(x)[1])


def test_features_do_not_outlive_their_call():
    seen = []

    class Spy(LikeResNet):
        def forward(self, x):
            features = self.stem(x).relu().mean((2, 3))
            seen.append(weakref.ref(features))
            return self.fc(features)

    wrapped = surelabel.add_indicator(Spy())
    outputs = wrapped(torch.randn(IMAGE))
    assert seen[0]() is not None  # the graph of the outputs needs them
    del outputs
    gc.collect()
    assert seen[0]() is None


def test_threads_do_not_read_each_others_features():
    wrapped = surelabel.add_indicator(sequential())
    inputs = [torch.randn(VECTOR) for _ in range(8)]
    expected = [wrapped(x)[1] for x in inputs]
    wrong = []

    def work(x, value):
        wrong.extend(1 for _ in range(50) if not torch.allclose(wrapped(x)[1], value, atol=1e-6))

    threads = [threading.Thread(target=work, args=pair) for pair in zip(inputs, expected, strict=True)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert not wrapped.model[2]._forward_hooks


def test_a_step_of_training_with_car():
    torch.manual_seed(0)
    model = surelabel.add_indicator(sequential())
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
    x, target = torch.randn(VECTOR), torch.eye(4)[[0, 1, 2, 3, 0]]
    losses = []
    for _ in range(5):
        loss = surelabel.car_loss(*model(x), target, penalty_weight=0.5).mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0]


@pytest.mark.parametrize(
    ("model", "options", "message"),
    [
        (nn.Sequential(nn.Flatten(), nn.ReLU()), {}, "has none, only Flatten, ReLU, Sequential"),
        (sequential(), {"layer": "fc"}, "no Linear layer 'fc'; it has 0, 2"),
        (sequential(), {"layers": 0}, "at least 1 layer, got 0"),
        (surelabel.add_indicator(sequential()), {}, "already has an indicator"),
        (nn.Sequential(nn.LazyLinear(3)), {}, "call the model once"),
    ],
    ids=["no_linear", "no_such_layer", "no_layers", "twice", "lazy"],
)
def test_unsuitable_models_are_refused(model, options, message):
    with pytest.raises(ValueError, match=message):
        surelabel.add_indicator(model, **options)


def own_network():
    return Network(make_backbone("mlp", (6,), {"widths": [8]}), 4)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (nn.Sequential(nn.Linear(6, 4), nn.Softmax(1)), "Linear layer '0'.* other values .*softmax"),
        (nn.Sequential(nn.Linear(6, 4), nn.LogSoftmax(1)), "rows sum to one"),
        (nn.Sequential(nn.Linear(6, 4), nn.ReLU()), r"other values; name another layer"),
        (nn.Sequential(nn.Linear(6, 4), nn.Unflatten(1, (2, 2))), r"shape \(5, 4\), and returned of shape \(5, 2, 2\)"),
        (nn.Sequential(nn.Unflatten(1, (2, 3)), nn.Linear(3, 4)), r"which is of shape \(5, 2, 4\)"),
        (HeadFirst(), r"layer 'body'.* of shape \(5, 8\), and returned of shape \(5, 4\)"),
        (own_network(), "returned a value of type Outputs"),
    ],
    ids=["softmax", "log_softmax", "relu", "reshaped", "three_axes", "other_layer", "network"],
)
def test_an_output_that_is_not_the_last_layers_is_an_error(model, message):
    with pytest.raises(ValueError, match=message):
        surelabel.add_indicator(model)(torch.randn(VECTOR))


def test_a_layer_that_is_not_used_is_an_error():
    model = HeadFirst()
    model.spare = nn.Linear(2, 2)
    with pytest.raises(ValueError, match=r"'spare' took no part.* one of head, body, spare"):
        surelabel.add_indicator(model)(torch.randn(VECTOR))
