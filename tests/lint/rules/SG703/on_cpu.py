from accelerate import Accelerator

accelerator = Accelerator(cpu=True)
