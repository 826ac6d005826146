"""Steps say whether they mix inputs: the gradient at a mixed input belongs to no single sample."""

import pytest
import torch

from surelabel import methods
from surelabel.api import fit
from surelabel.engine.loop import Engine

pytestmark = pytest.mark.training


@pytest.fixture
def steps(monkeypatch):
    """(epoch, what the step says, whether a network was trained on inputs of no batch)."""
    seen, inputs, train_step = [], [], Engine._train_step

    def watch(_network, arguments):
        if torch.is_grad_enabled():
            inputs.append(arguments[0])

    def step_and_note(self, step, batches, clock, settings):
        for network in self.method.networks().values():
            if not network._forward_pre_hooks:
                network.register_forward_pre_hook(watch)

        def noting(*arguments, **options):
            inputs.clear()
            result = step(*arguments, **options)
            copies = [copy for batch in batches.values() for copy in batch.copies]
            # Inputs of another size, as the probabilities that a noise layer gets, are no rows.
            shown = [x for x in inputs if x.shape[1:] == copies[0].shape[1:]]
            is_mixed = not all(any(torch.equal(x, copy) for copy in copies) for x in shown)
            seen.append((self.position.run_epoch, result.is_mixed, is_mixed))
            return result

        return train_step(self, noting, batches, clock, settings)

    monkeypatch.setattr(Engine, "_train_step", step_and_note)
    return seen


@pytest.mark.parametrize("name", methods.names())
def test_steps_say_so_and_the_share_is_of_the_others(name, tiny, tmp_path, steps):
    run = fit(tiny(name, train__epochs=8, train__gradient_share=True), tmp_path / "run")
    assert [said for _, said, _ in steps] == [is_mixed for _, _, is_mixed in steps]
    measured = {epoch for epoch, _, is_mixed in steps if not is_mixed}
    for row in run.metrics():
        has_gradient = row["loss"] != 0  # there is none if a method selects no row
        assert ("gradient_share" in row) == (row["epoch"] in measured and has_gradient)
        if "gradient_share" in row:
            assert sum(row["gradient_share"].values()) == pytest.approx(1)
