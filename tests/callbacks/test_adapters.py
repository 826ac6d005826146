"""The adapters against the real packages: they record what a plain loop would have recorded."""

import warnings

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from surelabel.callbacks import Recorder, record_trainer
from surelabel.errors import DataError

EPOCHS = 6


def finds_wrong_labels(recorder, blobs):
    first = {int(row["id"]) for row in recorder.audit().head(len(blobs.wrong))}
    return len(first & blobs.wrong) > 0.9 * len(blobs.wrong)


class TestHuggingFace:
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(4, 3)

        def forward(self, x, labels=None):
            logits = self.linear(x)
            return {"loss": F.cross_entropy(logits, labels), "logits": logits}

    @pytest.fixture
    def trainer(self, blobs, tmp_path):
        """Return a function that makes a trainer on data with or without a column of positions."""
        from datasets import Dataset
        from transformers import Trainer, TrainingArguments

        columns = {"x": blobs.x.tolist(), "labels": blobs.label.tolist(), "index": list(range(len(blobs.label)))}
        options = {"num_train_epochs": EPOCHS, "per_device_train_batch_size": 32, "learning_rate": 0.05}
        options |= {"use_cpu": True, "report_to": [], "save_strategy": "no", "disable_tqdm": True}
        options |= {"logging_strategy": "no", "eval_strategy": "epoch", "seed": 3}

        def make(without=()):
            data = Dataset.from_dict({name: values for name, values in columns.items() if name not in without})
            arguments = TrainingArguments(str(tmp_path), **options)
            torch.manual_seed(0)
            held_out = data.select(range(10)).remove_columns([n for n in ("index",) if n in data.column_names])
            return Trainer(self.Model(), arguments, train_dataset=data, eval_dataset=held_out)

        return make

    def test_training_is_recorded_and_not_changed(self, trainer, blobs):
        plain, recorder = trainer(), Recorder(len(blobs.label))
        plain.train_dataset = plain.train_dataset.remove_columns("index")
        plain.train()
        recorded = record_trainer(trainer(), recorder)
        recorded.train()
        for one, other in zip(plain.model.parameters(), recorded.model.parameters(), strict=True):
            assert torch.equal(one, other)
        assert len(recorder.metrics) == EPOCHS
        assert (recorder.record.visits == EPOCHS).all()  # evaluation does not count
        assert finds_wrong_labels(recorder, blobs)

    def test_data_without_positions_are_refused(self, trainer, blobs):
        recorded = record_trainer(trainer(without=("index",)), Recorder(len(blobs.label)))
        with pytest.raises(DataError, match="no index"):
            recorded.train()


class TestLightning:
    @pytest.fixture
    def fit(self, blobs, tmp_path):
        """Return a function that trains a Lightning module with a recorder."""
        from surelabel.callbacks import LightningRecorder  # isort: skip  # it repairs the import of torchvision
        import lightning

        class Module(lightning.LightningModule):
            def __init__(self, returns):
                super().__init__()
                self.linear, self.returns = nn.Linear(4, 3), returns

            def training_step(self, batch, _number):
                x, label, _ = batch
                logits = self.linear(x)
                loss = F.cross_entropy(logits, label)
                return {"loss": loss, "logits": logits} if self.returns == "logits" else loss

            def configure_optimizers(self):
                return torch.optim.SGD(self.parameters(), 0.1)

        def run(recorder, returns="logits", epochs=EPOCHS, checkpoint=None):
            torch.manual_seed(0)
            rows = TensorDataset(blobs.x, blobs.label, torch.arange(len(blobs.label)))
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # its own, about versions of torch and workers
                trainer = lightning.Trainer(
                    max_epochs=epochs,
                    accelerator="cpu",
                    callbacks=[LightningRecorder(recorder)],
                    logger=False,
                    enable_checkpointing=False,
                    enable_progress_bar=False,
                    enable_model_summary=False,
                    default_root_dir=tmp_path,
                )
                loader = DataLoader(rows, batch_size=32, shuffle=True)
                trainer.fit(Module(returns), loader, ckpt_path=checkpoint)
                trainer.save_checkpoint(tmp_path / f"{epochs}.ckpt")
            return tmp_path / f"{epochs}.ckpt"

        return run

    def test_training_is_recorded(self, fit, blobs):
        recorder = Recorder(len(blobs.label))
        fit(recorder)
        assert len(recorder.metrics) == EPOCHS
        assert (recorder.record.visits == EPOCHS).all()
        assert finds_wrong_labels(recorder, blobs)

    def test_its_checkpoints_hold_the_record(self, fit, blobs):
        first, second = Recorder(len(blobs.label)), Recorder(len(blobs.label))
        checkpoint = fit(first, epochs=2)
        fit(second, epochs=3, checkpoint=checkpoint)
        assert [row["epoch"] for row in second.metrics] == [1, 2, 3]
        assert second.metrics[:2] == first.metrics
        assert (second.record.visits == 3).all()

    def test_a_step_without_logits_is_refused(self, fit, blobs):
        with pytest.raises(DataError, match="training_step must return"):
            fit(Recorder(len(blobs.label)), returns="loss")

    def test_batches(self):
        from surelabel.callbacks.lightning import unpack_batch

        assert unpack_batch(("x", "y", "i")) == ("i", "y")
        assert unpack_batch({"labels": "y", "index": "i", "x": 0}) == ("i", "y")
        with pytest.raises(DataError, match="unpack="):
            unpack_batch(("x", "y"))


class TestSkorch:
    @pytest.fixture
    def net(self):
        """Return a function that makes a classifier with a recorder."""
        from skorch import NeuralNetClassifier

        from surelabel.callbacks import IndexedLoader, SkorchRecorder

        def make(recorder, module, **options):
            common = {"max_epochs": EPOCHS, "batch_size": 32, "lr": 0.1, "verbose": 0, "train_split": None}
            common |= {"iterator_train": IndexedLoader, "iterator_train__shuffle": True}
            return NeuralNetClassifier(module, callbacks=[SkorchRecorder(recorder)], **{**common, **options})

        return make

    @pytest.mark.parametrize("outputs", ["logits", "probabilities"])
    def test_training_is_recorded(self, net, blobs, outputs):
        torch.manual_seed(0)
        recorder, module = Recorder(len(blobs.label)), nn.Linear(4, 3)
        options = {"criterion": nn.CrossEntropyLoss}
        if outputs == "probabilities":  # which skorch's default loss expects
            module, options = nn.Sequential(module, nn.Softmax(1)), {}
        net(recorder, module, **options).fit(blobs.x.numpy(), blobs.label.numpy())
        assert len(recorder.metrics) == EPOCHS
        assert (recorder.record.visits == EPOCHS).all()
        assert torch.allclose(recorder.record.mean_probability.whole().sum(1), torch.ones(len(blobs.label)))
        assert recorder.metrics[-1]["given_accuracy"] > 0.7
        assert finds_wrong_labels(recorder, blobs)

    def test_rows_of_its_validation_split_are_not_seen(self, net, blobs):
        from skorch.dataset import ValidSplit

        recorder = Recorder(len(blobs.label))
        made = net(recorder, nn.Linear(4, 3), criterion=nn.CrossEntropyLoss, train_split=ValidSplit(5, stratified=True))
        made.fit(blobs.x.numpy(), blobs.label.numpy())
        seen = recorder.record.given >= 0
        assert int(seen.sum()) == 240
        assert torch.equal(recorder.record.given[seen], blobs.label[seen])  # rows are those of the whole data

    def test_a_net_without_the_loader_is_told(self, net, blobs):
        made = net(Recorder(300), nn.Linear(4, 3), criterion=nn.CrossEntropyLoss, iterator_train=DataLoader)
        with pytest.raises(DataError, match="IndexedLoader"):
            made.fit(blobs.x.numpy(), blobs.label.numpy())
