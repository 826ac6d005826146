"""DivideMix: dividing, refining and guessing, and the edge cases of each."""

import math
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from surelabel.core import Batch
from surelabel.methods._mixing import sharpen
from surelabel.methods.dividemix import DivideMix, guess, uniformity_penalty

GIVEN = torch.tensor([0, 1, 2, 0, 1, 2, 0, 1])
N, K = len(GIVEN), 3
FIRST, SECOND = slice(0, 3), slice(4, 7)


def inputs(first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
    """Inputs for both networks side by side, each with a column for h, which is not used."""
    h = torch.zeros(len(first), 1)
    return torch.cat([first, h, second, h], 1)


def agreeing(strength: torch.Tensor, given: torch.Tensor = GIVEN) -> torch.Tensor:
    """(N, K) logits that are `strength` at the given label."""
    return strength[:, None] * F.one_hot(given, K)


X = inputs(*torch.randn(2, N, K, generator=torch.Generator().manual_seed(0)))
# The first network believes the labels of the first half, the second those of rows 0, 2, 4, 6.
HALF = torch.where(torch.arange(N) < 4, 6.0, -6.0)
EVEN = torch.where(torch.arange(N) % 2 == 0, 6.0, -6.0)
SPLIT = inputs(agreeing(HALF), agreeing(EVEN))


@pytest.fixture
def make(make_task):
    def method(given=GIVEN, epochs=300, **options):
        return DivideMix(make_task(given, K, epochs, num_networks=2), **options)

    return method


class TestRefining:
    def test_a_surely_clean_label_stays_one_hot(self, make, make_batch):
        refined = make().refined(make().first, make_batch(X, GIVEN, copies=2), torch.ones(N))
        assert torch.equal(refined, F.one_hot(GIVEN, K).float())

    def test_a_surely_false_label_becomes_the_sharpened_prediction(self, make, make_batch):
        method = make(temperature=0.5)
        refined = method.refined(method.first, make_batch(X, GIVEN, copies=2), torch.zeros(N))
        assert torch.allclose(refined, sharpen(X[:, FIRST].softmax(1), 0.5))

    def test_between_by_hand(self, make, make_batch):
        method = make(temperature=1.0)
        clean = torch.linspace(0.1, 0.9, N)
        refined = method.refined(method.first, make_batch(X, GIVEN, copies=2), clean)
        expected = clean[:, None] * F.one_hot(GIVEN, K) + (1 - clean[:, None]) * X[:, FIRST].softmax(1)
        assert torch.allclose(refined, expected, atol=1e-6)
        assert torch.allclose(refined.sum(1), torch.ones(N))

    def test_refines_over_both_views_with_its_own_network(self, make):
        method = make(temperature=1.0)
        copies = (X, X.flip(1))
        batch = Batch(torch.arange(N), copies, GIVEN, torch.ones(N))
        refined = method.refined(method.second, batch, torch.zeros(N))
        expected = sum(method.second(x).logits.softmax(1) for x in copies) / 2
        assert torch.allclose(refined, expected, atol=1e-6)

    def test_guesses_with_both_networks(self, make, make_batch):
        method = make(temperature=0.5)
        guessed = method.guessed(method.first, method.second, make_batch(X, GIVEN, copies=2))
        mean = (X[:, FIRST].softmax(1) + X[:, SECOND].softmax(1)) / 2
        assert torch.allclose(guessed, sharpen(mean, 0.5))
        assert not guessed.requires_grad

    def test_guessing_leaves_mode_and_batch_norm_as_they_were(self, make, make_batch):
        network = nn.Sequential(nn.BatchNorm1d(8), make().first)
        network.train()
        before = network[0].running_mean.clone()
        with torch.no_grad():
            guess([network], make_batch(X, GIVEN, copies=2))
        assert network.training
        assert network[0].training
        assert torch.equal(network[0].running_mean, before)
        network.eval()
        guess([network], make_batch(X, GIVEN))
        assert not network.training


class TestUniformity:
    def test_is_zero_for_a_uniform_mean(self):
        logits = 50 * torch.eye(3)
        assert uniformity_penalty(logits, torch.ones(3)).item() == pytest.approx(0, abs=1e-6)

    def test_by_hand(self):
        logits = torch.tensor([[math.log(2), 0.0, 0.0]])
        expected = sum(math.log((1 / 3) / p) for p in (0.5, 0.25, 0.25)) / 3
        assert uniformity_penalty(logits, torch.ones(1)).item() == pytest.approx(expected, rel=1e-5)

    def test_is_positive_otherwise(self):
        for seed in range(20):
            logits = torch.randn(5, 4, generator=torch.Generator().manual_seed(seed))
            assert uniformity_penalty(logits, torch.ones(5)).item() > 1e-6

    def test_padding_does_not_count(self):
        logits = torch.cat([50 * torch.eye(3), torch.tensor([[50.0, 0.0, 0.0]])])
        assert uniformity_penalty(logits, torch.tensor([1.0, 1.0, 1.0, 0.0])).item() == pytest.approx(0, abs=1e-6)

    def test_a_class_never_predicted_is_finite(self):
        logits = torch.tensor([[200.0, 0.0, 0.0]], requires_grad=True)
        penalty = uniformity_penalty(logits, torch.ones(1))
        penalty.backward()
        assert math.isfinite(penalty.item())
        assert bool(logits.grad.isfinite().all())


class TestDividing:
    def test_warm_up_is_one_pass_over_everything(self, make, make_run):
        method = make(warm_up=3)
        for epoch in (1, 2, 3):
            (walk,) = method.plan(make_run(SPLIT, GIVEN, epoch=epoch))
            assert walk.step == method.warm_up_step
            assert [view.indices for view in walk.views.values()] == [None]

    def test_each_network_gets_the_others_split(self, make, make_run):
        method = make(warm_up=3)
        first, second = method.plan(make_run(SPLIT, GIVEN, epoch=4))
        assert (first.step, second.step) == (method.first_step, method.second_step)
        assert first.views["labelled"].indices.tolist() == [0, 2, 4, 6]
        assert first.views["unlabelled"].indices.tolist() == [1, 3, 5, 7]
        assert second.views["labelled"].indices.tolist() == [0, 1, 2, 3]
        assert second.views["unlabelled"].indices.tolist() == [4, 5, 6, 7]
        assert all(view.copies == 2 and view.augment for walk in (first, second) for view in walk.views.values())
        assert next(iter(first.views)) == "labelled"

    def test_the_first_networks_split_does_not_depend_on_its_own_losses(self, make, make_run):
        other = inputs(agreeing(HALF.flip(0)), agreeing(EVEN))
        splits = [make(warm_up=3).plan(make_run(x, GIVEN, epoch=4))[0].views for x in (SPLIT, other)]
        assert splits[0]["labelled"].indices.tolist() == splits[1]["labelled"].indices.tolist()

    def test_steps_use_the_others_clean_probability(self, make, make_batch, make_clock, make_run):
        method = make(warm_up=3)
        method.plan(make_run(SPLIT, GIVEN, epoch=4))
        seen = []
        method.mix_step = lambda network, helper, clean, *_: seen.append((network, helper, clean.round().tolist()))
        batch = make_batch(SPLIT, GIVEN, copies=2)
        method.first_step(batch, make_clock(4))
        method.second_step(batch, make_clock(4))
        assert seen[0] == (method.first, method.second, [1, 0, 1, 0, 1, 0, 1, 0])
        assert seen[1] == (method.second, method.first, [1, 1, 1, 1, 0, 0, 0, 0])

    def test_notes_how_much_is_labelled(self, make, make_run):
        run = make_run(SPLIT, GIVEN, epoch=4)
        make(warm_up=3).plan(run)
        assert run.notes == {"labelled_share": 0.5}

    def test_losses_that_do_not_differ_label_everything(self, make, make_run):
        for walk in make(warm_up=3).plan(make_run(torch.zeros(N, 8), GIVEN, epoch=4)):
            assert list(walk.views) == ["labelled"]
            assert walk.views["labelled"].indices.tolist() == list(range(N))

    @pytest.mark.parametrize("num_clean", [0, 1])
    def test_fewer_than_two_labelled_means_all(self, make, num_clean):
        views = make().split((torch.arange(N) < num_clean).float())
        assert list(views) == ["labelled"]
        assert views["labelled"].indices.tolist() == list(range(N))

    def test_a_single_unlabelled_row_is_no_batch(self, make):
        views = make().split((torch.arange(N) < N - 1).float())
        assert list(views) == ["labelled"]
        assert views["labelled"].indices.tolist() == list(range(N - 1))

    def test_the_threshold(self, make):
        views = make(clean_threshold=0.6).split(torch.tensor([0.5, 0.6, 0.61, 0.9, 0.1, 0.2, 0.99, 0.0]))
        assert views["labelled"].indices.tolist() == [2, 3, 6]

    def test_clean_probability_survives_a_restart(self, make, make_run):
        before, after = make(warm_up=3), make(warm_up=3)
        before.plan(make_run(SPLIT, GIVEN, epoch=4))
        after.load_state_dict(before.state_dict())
        assert torch.equal(after.clean_probability, before.clean_probability)
        assert before.clean_probability.min() < 0.5


DRAWN = {"first": torch.tensor([0, 1, 4, 5]), "second": torch.tensor([2, 3, 6, 7])}


class TestDrawingRowsFirst:
    """Epochs of a number of batches: each network divides the rows that are drawn for it."""

    def test_only_drawn_rows_are_looked_at_and_trained_on(self, make, make_run):
        method, run = make(warm_up=3), make_run(SPLIT, GIVEN, epoch=4)
        run.drawn = DRAWN
        for_first, for_second = method.plan(run)
        assert for_first.views["labelled"].indices.tolist() == [2, 6]
        assert for_first.views["unlabelled"].indices.tolist() == [3, 7]
        assert for_second.views["labelled"].indices.tolist() == [0, 1]
        assert for_second.views["unlabelled"].indices.tolist() == [4, 5]
        assert method.clean_probability[0].round().tolist() == [1, 1, 1, 1, 0, 0, 1, 1], "others stay as they were"
        assert method.clean_probability[1].round().tolist() == [1, 1, 1, 0, 1, 1, 1, 0]
        assert run.notes == {"labelled_share": 0.5}

    def test_too_few_labelled_rows_mean_all_that_were_drawn(self, make):
        views = make().split(torch.zeros(N), torch.tensor([1, 4, 6]))
        assert list(views) == ["labelled"]
        assert views["labelled"].indices.tolist() == [1, 4, 6]

    def test_confirmed_labels_are_clean(self, make_task, make_run):
        confirmed = torch.arange(N) == 3
        method = DivideMix(make_task(GIVEN, K, 300, num_networks=2, trusted=confirmed), warm_up=3)
        run = make_run(SPLIT, GIVEN, epoch=4)
        run.drawn = DRAWN
        assert method.plan(run)[0].views["labelled"].indices.tolist() == [2, 3, 6]

    def test_the_end_of_the_run_judges_all_rows(self, make, make_run):
        method, run = make(warm_up=3), make_run(SPLIT, GIVEN, epoch=4)
        run.drawn = DRAWN
        method.plan(run)
        (stage,) = method.stages()
        stage.then(run)
        assert method.clean_probability.round().tolist() == [[1, 1, 1, 1, 0, 0, 0, 0], [1, 0] * 4]


class TestSeparateWarmUp:
    def test_is_a_pass_for_each_network_in_batches_twice_as_large(self, make_task, make_run):
        method = DivideMix(make_task(GIVEN, K, num_networks=2, batch_size=5), warm_up=3, separate_warm_up=True)
        first, second = method.plan(make_run(SPLIT, GIVEN, epoch=3))
        assert (first.step, second.step) == (method.first_warm_up_step, method.second_warm_up_step)
        assert [view.batch_size for walk in (first, second) for view in walk.views.values()] == [10, 10]

    def test_trains_one_network_by_its_cross_entropy(self, make, make_batch, make_clock):
        method = make(separate_warm_up=True, confidence_penalty=True)
        for name, columns in (("first", FIRST), ("second", SECOND)):
            x = X.clone().requires_grad_()
            step = getattr(method, f"{name}_warm_up_step")(make_batch(x, GIVEN), make_clock(1))
            assert step.terms[name].item() == pytest.approx(F.cross_entropy(X[:, columns], GIVEN).item(), rel=1e-5)
            p = X[:, columns].softmax(1)
            assert step.terms["confidence_penalty"].item() == pytest.approx(
                (p * p.log()).sum(1).mean().item(), rel=1e-5
            )
            assert list(step.terms) == [name, "confidence_penalty"]
            assert torch.equal(step.seen, X[:, columns])
            gradient = torch.autograd.grad(sum(step.terms.values()), x)[0]
            others = [column for column in range(8) if column not in range(*columns.indices(8))]
            assert not gradient[:, others].any()


class TestSteps:
    def test_warm_up_is_cross_entropy_of_both(self, make, make_batch, make_clock):
        step = make().warm_up_step(make_batch(X, GIVEN), make_clock(1))
        assert step.terms["first"].item() == pytest.approx(F.cross_entropy(X[:, FIRST], GIVEN).item(), rel=1e-5)
        assert step.terms["second"].item() == pytest.approx(F.cross_entropy(X[:, SECOND], GIVEN).item(), rel=1e-5)
        assert list(step.terms) == ["first", "second"]
        assert torch.allclose(step.seen, (X[:, FIRST] + X[:, SECOND]) / 2)

    def test_the_confidence_penalty_is_the_negative_entropy_of_both(self, make, make_batch, make_clock):
        terms = make(confidence_penalty=True).warm_up_step(make_batch(torch.zeros(N, 8), GIVEN), make_clock(1)).terms
        assert terms["confidence_penalty"].item() == pytest.approx(-2 * math.log(K), rel=1e-5)

    def test_unmixed_labelled_rows_by_hand(self, make, make_batch, make_clock, monkeypatch):
        monkeypatch.setattr("surelabel.methods.dividemix.draw_mixing_weight", lambda *_: 1.0)
        method = make()
        step = method.first_step(make_batch(X, GIVEN, copies=2), make_clock(20))
        # Every label counts as clean before the first split, so the target is the given label.
        assert step.terms["labelled"].item() == pytest.approx(F.cross_entropy(X[:, FIRST], GIVEN).item(), rel=1e-5)
        uniformity = uniformity_penalty(X[:, FIRST], torch.ones(N)).item()
        assert step.terms["uniformity"].item() == pytest.approx(uniformity, rel=1e-4, abs=1e-6)
        assert list(step.terms) == ["labelled", "uniformity"]
        assert step.seen is None

    def test_unmixed_unlabelled_rows_by_hand(self, make, make_batch, make_clock, monkeypatch):
        monkeypatch.setattr("surelabel.methods.dividemix.draw_mixing_weight", lambda *_: 1.0)
        method = make(warm_up=1, unlabelled_ramp=4, unlabelled_weight=10.0)
        index = torch.tensor([5, 6, 7])
        labelled, unlabelled = make_batch(X[:5], GIVEN[:5], copies=2), make_batch(X[5:], GIVEN[5:], index, copies=2)
        terms = method.first_step(labelled, make_clock(4, step=0), unlabelled).terms
        guessed = method.guessed(method.first, method.second, unlabelled)
        error = (X[5:, FIRST].softmax(1) - guessed).square().mean().item()
        # Epoch 4 starts when two of the four epochs of the ramp are over.
        assert terms["unlabelled"].item() == pytest.approx(10 * 0.5 * error, rel=1e-4)
        assert terms["labelled"].item() == pytest.approx(F.cross_entropy(X[:5, FIRST], GIVEN[:5]).item(), rel=1e-5)

    def test_unlabelled_rows_may_be_partners_only(self, make, make_batch, make_clock, monkeypatch):
        """As the authors' scripts for Clothing1M and WebVision: 2B labelled mixes are forwarded."""
        monkeypatch.setattr("surelabel.methods.dividemix.draw_mixing_weight", lambda *_: 0.6)
        method, index, forwarded = make(only_partners=True), torch.tensor([5, 6, 7]), []
        method.first.register_forward_hook(lambda _m, args, _out: forwarded.append(args[0]))
        labelled = make_batch(X[:5], GIVEN[:5], copies=2)
        terms = []
        for x in (X[5:], X[5:] + 1):
            unlabelled = make_batch(x, GIVEN[5:], index, copies=2)
            terms.append(method.first_step(labelled, make_clock(20), unlabelled).terms)
        assert [list(found) for found in terms] == [["labelled", "uniformity"]] * 2
        # Two passes to refine labels and two to guess come before the mixes.
        mixes = forwarded[4], forwarded[9]
        assert [len(x) for x in mixes] == [10, 10]
        assert not torch.equal(*mixes), "the unlabelled rows are mixed into the labelled ones"
        uniformity = uniformity_penalty(mixes[0][:, FIRST], torch.ones(10)).item()
        assert terms[0]["uniformity"].item() == pytest.approx(uniformity, rel=1e-4)

    def test_labels_of_the_unlabelled_do_not_matter(self, make, make_batch, make_clock):
        method, index = make(), torch.tensor([5, 6, 7])
        labelled = make_batch(X[:5], GIVEN[:5], copies=2)
        values = [
            sum(method.first_step(labelled, make_clock(20), make_batch(X[5:], label, index, copies=2)).terms.values())
            for label in (GIVEN[5:], (GIVEN[5:] + 1) % K)
        ]
        assert values[0].item() == values[1].item()

    def test_only_the_network_that_learns_gets_a_gradient(self, make, make_batch, make_clock):
        method = make()
        step = method.second_step(make_batch(X, GIVEN, copies=2), make_clock(20), make_batch(X, GIVEN, copies=2))
        sum(step.terms.values()).backward()
        assert method.second.classifier.weight.grad.abs().sum() > 0
        assert method.first.classifier.weight.grad is None

    def test_padding_does_not_count(self, make, make_batch, make_clock):
        method = make()
        weight = (torch.arange(N) < 6).float()
        index = torch.where(weight > 0, torch.arange(N), -1)
        padded = method.first_step(make_batch(X, GIVEN, index, weight, copies=2), make_clock(20)).terms
        changed = X.clone()
        changed[6:] = 99
        other = method.first_step(make_batch(changed, GIVEN, index, weight, copies=2), make_clock(20)).terms
        assert {name: term.item() for name, term in padded.items()} == {
            name: term.item() for name, term in other.items()
        }


class TestViews:
    def test_they_are_strong_if_so_asked(self, make):
        clean = torch.tensor([1.0, 1, 1, 0, 0, 1, 1, 0])
        usual, strong = make().split(clean), make(strong=True).split(clean)
        assert {name: view.augment for name, view in usual.items()} == {"labelled": True, "unlabelled": True}
        assert {name: view.augment for name, view in strong.items()} == {"labelled": "strong", "unlabelled": "strong"}
        assert {view.copies for view in (*usual.values(), *strong.values())} == {2}


class TestRamp:
    def test_nothing_in_the_warm_up_and_all_after(self, make, make_clock):
        method = make(warm_up=10, unlabelled_ramp=16)
        shares = [method.ramp_up(make_clock(epoch, 300)) for epoch in range(1, 301)]
        assert shares[:11] == [0] * 11
        assert shares[18] == pytest.approx(8 / 16)
        assert shares[26:] == [1] * 274
        assert shares == sorted(shares)

    def test_grows_within_an_epoch(self, make, make_clock):
        method = make(warm_up=10, unlabelled_ramp=16)
        clock = replace(make_clock(11, 300), step=3, steps=6)
        assert method.ramp_up(clock) == pytest.approx(0.5 / 16)

    @pytest.mark.parametrize(("epochs", "warm_up", "ramp"), [(300, 10, 16), (600, 20, 32), (30, 5, 2)])
    def test_lengths_are_the_published_shares(self, make, epochs, warm_up, ramp):
        method = make(epochs=epochs)
        assert (method.warm_up, method.unlabelled_ramp) == (warm_up, ramp)


class TestVerdict:
    def test_predicts_with_the_mean_logits(self, make):
        expected = ((X[:, FIRST] + X[:, SECOND]) / 2).softmax(1)
        assert torch.allclose(make().predict(X), expected)

    def test_quality_is_the_mean_of_both_mixtures(self, make, make_run, verdict_of):
        method = make()
        method.stages()[-1].then(make_run(SPLIT, GIVEN))
        quality = verdict_of(method, SPLIT, GIVEN).quality
        assert torch.allclose(quality, torch.tensor([1.0, 0.5, 1.0, 0.5, 0.5, 0.0, 0.5, 0.0]), atol=1e-3)

    def test_corrected_labels_by_hand(self, make, verdict_of):
        method = make(clean_threshold=0.6)
        quality = torch.tensor([0.75, 0.6, 0.61, 0.25, 1.0, 0.0, 0.9, 0.5])
        method.clean_probability.copy_(quality)
        corrected, p = verdict_of(method, X, GIVEN).corrected, method.predict(X)
        for row in range(N):
            w = quality[row] if quality[row] > 0.6 else 0.0
            assert torch.allclose(corrected[row], w * F.one_hot(GIVEN[row], K) + (1 - w) * p[row])

    def test_corrected_labels(self, make, make_run, verdict_of):
        method = make()
        method.stages()[-1].then(make_run(SPLIT, GIVEN))
        corrected = verdict_of(method, SPLIT, GIVEN).corrected
        assert torch.allclose(corrected.sum(1), torch.ones(N))
        assert corrected.argmax(1)[[0, 2]].tolist() == GIVEN[[0, 2]].tolist()
        assert torch.allclose(corrected[[5, 7]], method.predict(SPLIT)[[5, 7]])
