from lightning.pytorch import Trainer

DEVICES = 4
trainer = Trainer(devices=DEVICES, strategy="ddp")
